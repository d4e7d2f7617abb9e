package spindle_test

import (
	"context"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

func TestFromGoroutineOnALoopThatIsClosed(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	failed, waits := make(chan error, 1), make(chan bool)
	go func() {
		_, err := spindle.FromGoroutine(noticing{t.Context(), waits}, l, func() (int, error) { return 1, nil })
		failed <- err
	}()
	<-waits
	if err := l.Close(); err != nil {
		t.Errorf("the loop closed with %v", err)
	}
	if err := <-failed; err != loop.ErrClosed {
		t.Errorf("failed with %v", err)
	}
	if _, err := spindle.FromGoroutine(t.Context(), l, func() (int, error) { return 1, nil }); err != loop.ErrClosed {
		t.Errorf("then %v", err)
	}
}

// noticing is a context that knows when somebody waits for it.
type noticing struct {
	context.Context
	waits chan bool
}

func (c noticing) Done() <-chan struct{} {
	c.waits <- true
	return c.Context.Done()
}

// TestFromGoroutinePassesPanicsOn: to whoever has called, and the loop goes on.
func TestFromGoroutinePassesPanicsOn(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		p, err := spindle.Blocking(ctx, func() (*spindle.PanicError, error) {
			return panicOf(func() error {
				_, err := spindle.FromGoroutine(ctx, l, func() (int, error) { panic("boom") })
				return err
			}), nil
		})
		if err != nil {
			return err
		}
		if p == nil || p.Value != "boom" {
			t.Errorf("panic %v", p)
		}
		return spindle.Yield(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFromGoroutineOnTheLoopItselfIsNamed(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, "FromGoroutine called on the loop") {
				t.Errorf("panic %q", text)
			}
		}()
		spindle.FromGoroutine(ctx, spindle.LoopOf(ctx), func() (int, error) { return 1, nil })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
