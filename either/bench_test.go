package either_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/either"
)

// BenchmarkMutex compares a lock of this package with that of package cosync, in a task.
func BenchmarkMutex(b *testing.B) {
	type mutex interface {
		Lock(context.Context) error
		Unlock()
	}
	for name, make := range map[string]func() mutex{
		"either": func() mutex { return new(either.Mutex) },
		"cosync": func() mutex { return new(cosync.Mutex) },
	} {
		b.Run(name, func(b *testing.B) {
			mu := make()
			_ = spindle.Run(b.Context(), func(ctx context.Context) error {
				for b.Loop() {
					if err := mu.Lock(ctx); err != nil {
						return err
					}
					mu.Unlock()
				}
				return nil
			})
		})
	}
}
