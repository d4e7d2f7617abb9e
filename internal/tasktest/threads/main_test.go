package threads_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

// forever waits until it is cancelled.
func forever(ctx context.Context) error { return spindle.Sleep(ctx, 1<<62) }

func newLoop(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
