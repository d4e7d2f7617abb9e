package behaviour_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
)

// rounds is how often a race between goroutines is tried.
const rounds = 1000

// TestNothingIsLostThatARunNeedsNoMore: each of these leaves a callback that arrives when the
// run ends, and none of them is lost work.
func TestNothingIsLostThatARunNeedsNoMore(t *testing.T) {
	for name, program := range map[string]func(t *testing.T) error{
		"Run with a ctx that ends with it": func(t *testing.T) error {
			ctx, cancel := context.WithCancel(t.Context())
			err := spindle.Run(ctx, func(ctx context.Context) error {
				go cancel()
				return spindle.Yield(ctx)
			})
			cancel()
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
		"a wait with a derived ctx": func(t *testing.T) error {
			return spindle.Run(t.Context(), func(ctx context.Context) error {
				derived, cancel := context.WithCancel(ctx)
				go cancel()
				spindle.Sleep(derived, 1)
				return nil
			})
		},
		"RunOn with a ctx that ends": func(t *testing.T) error {
			l := openLoop(t)
			ctx, cancel := context.WithCancel(t.Context())
			spindle.RunOn(ctx, l, func(ctx context.Context) error {
				go cancel()
				return spindle.Yield(ctx)
			}, func(error) { l.Stop() })
			err := l.Run(t.Context())
			cancel()
			return errors.Join(err, l.Close())
		},
		"CallOn that is told": func(t *testing.T) error {
			l := openLoop(t)
			told := make(chan error)
			go func() {
				_, err := spindle.CallOn(t.Context(), l, func(context.Context) (int, error) { return 0, nil })
				told <- err
			}()
			runtime.Gosched()
			err := l.Close()
			if err := <-told; err != loop.ErrClosed {
				t.Errorf("told %v", err)
			}
			return err
		},
		"CallOn that gave up": func(t *testing.T) error {
			l := openLoop(t)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := spindle.CallOn(ctx, l, func(context.Context) (int, error) { return 0, nil }); err != context.Canceled {
				t.Errorf("told %v", err)
			}
			return l.Close()
		},
		"Abandon": func(t *testing.T) error {
			release, ended := make(chan bool), make(chan bool)
			err := abandoning(t.Context(), release, ended)
			close(release)
			<-ended
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range short.Of(rounds) {
				if err := program(t); err != nil {
					t.Fatalf("round %d: %v", i, err)
				}
			}
		})
	}
}

// abandoning is a run that abandons work which outlives it.
func abandoning(ctx context.Context, release, ended chan bool) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			begun := make(chan struct{})
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				_, err := spindle.Blocking(ctx, func() (int, error) { <-begun; return 0, nil })
				s.Cancel(nil)
				return err
			})
			_, err := spindle.Abandon(ctx, func() (int, error) {
				defer close(ended)
				close(begun)
				<-release
				return 0, nil
			})
			return err
		})
	})
}

func leftBehind() {}

// TestLostCallbacksFailTheRun with their name and place.
func TestLostCallbacksFailTheRun(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			defer l.CallSoon(leftBehind)
			return forever(ctx)
		})
		return spindle.Yield(ctx)
	})
	if !errors.Is(err, loop.ErrLost) || !strings.Contains(err.Error(), "callbacks not run: 1,") || !strings.Contains(err.Error(), "behaviour_test.leftBehind (lost_test.go:") {
		t.Errorf("%v", err)
	}
}
