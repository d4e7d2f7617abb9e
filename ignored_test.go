package spindle_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

// TestIgnoredCancellationIsLogged: when a task is first slowed down because it goes on
// waiting in a cancelled scope, it is logged by name, once.
func TestIgnoredCancellationIsLogged(t *testing.T) {
	for _, c := range []struct {
		name string
		task func(ctx context.Context, s *spindle.Scope)
		want int
	}{
		{"cleans up with a few waits", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 16 {
				spindle.Yield(ctx)
			}
		}, 0},
		{"ignores it", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 19 {
				spindle.Yield(ctx)
			}
		}, 1},
		{"ignores it twice", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 2 {
				for range 18 {
					spindle.Sleep(ctx, time.Hour)
				}
				spindle.Shield(ctx, spindle.Yield)
			}
		}, 1},
		{"joins cancelled nurseries", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 19 {
				spindle.WithNursery(ctx, func(context.Context, *spindle.Nursery) error { return nil })
			}
		}, 1},
		{"other waits go well, with a derived context", func(ctx context.Context, _ *spindle.Scope) {
			live, cancel := context.WithCancel(ctx)
			defer cancel()
			ended, end := context.WithCancel(ctx)
			end()
			for range 40 {
				spindle.Yield(ended)
				spindle.Yield(live)
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := spindle.Options{ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
			err := spindle.RunWith(t.Context(), o, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.GoWith(spindle.TaskOptions{Name: "stubborn"}, func(ctx context.Context) error {
						return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
							c.task(ctx, s)
							return nil
						})
					})
					return nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "ignores its cancellation"); n != c.want || n != strings.Count(log.String(), "task=stubborn function=ignored_test.go:") {
				t.Errorf("logged %d times, want %d:\n%s", n, c.want, log.String())
			}
		})
	}
}
