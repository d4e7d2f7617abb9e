package behaviour_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
)

func TestCallOn(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		state := 41
		n, err := spindle.Blocking(ctx, func() (int, error) {
			return spindle.CallOn(context.Background(), l, func(context.Context) (int, error) { state++; return state, nil })
		})
		if n != 42 {
			t.Errorf("got %d", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCallOnOnALoopThatIsClosed(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	failed, waits := make(chan error, 1), make(chan bool)
	go func() {
		_, err := spindle.CallOn(noticing{t.Context(), waits}, l, func(context.Context) (int, error) { return 1, nil })
		failed <- err
	}()
	<-waits
	if err := l.Close(); err != nil {
		t.Errorf("the loop closed with %v", err)
	}
	if err := <-failed; err != loop.ErrClosed {
		t.Errorf("failed with %v", err)
	}
	if _, err := spindle.CallOn(t.Context(), l, func(context.Context) (int, error) { return 1, nil }); err != loop.ErrClosed {
		t.Errorf("then %v", err)
	}
}

// noticing is a context that notices when its Done is called.
type noticing struct {
	context.Context
	waits chan bool
}

func (c noticing) Done() <-chan struct{} {
	c.waits <- true
	return c.Context.Done()
}

// TestCallOnPassesPanicsOn to its caller, and the loop continues.
func TestCallOnPassesPanicsOn(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		p, err := spindle.Blocking(ctx, func() (*spindle.PanicError, error) {
			return panicOf(func() error {
				_, err := spindle.CallOn(ctx, l, func(context.Context) (int, error) { panic("boom") })
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

// TestCallOnThatGaveUpRunsNothing: either fn runs and CallOn returns its
// result, or ctx ends first and fn never runs.
func TestCallOnThatGaveUpRunsNothing(t *testing.T) {
	l := openLoop(t)
	ended := make(chan error)
	go func() { ended <- l.Run(context.Background()) }()
	for i := range short.Of(rounds) {
		ran := false // the loop's, or after it ours
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err := spindle.CallOn(ctx, l, func(context.Context) (int, error) { ran = true; return 0, nil })
		spindle.CallOn(t.Context(), l, func(context.Context) (int, error) {
			if ran != (err == nil) {
				t.Errorf("round %d: ran %v, %v", i, ran, err)
			}
			return 0, nil
		})
		cancel()
	}
	l.Stop()
	if err := errors.Join(<-ended, l.Close()); err != nil {
		t.Error(err)
	}
}

// pair runs fn in a task of one loop. The other loop runs meanwhile.
func pair(t *testing.T, fn func(ctx context.Context, other *loop.Loop) error) {
	t.Helper()
	other := openLoop(t)
	ended := make(chan error)
	go func() { ended <- other.Run(context.Background()) }()
	err := spindle.Run(t.Context(), func(ctx context.Context) error { return fn(ctx, other) })
	other.Stop()
	if err := errors.Join(err, <-ended, other.Close()); err != nil {
		t.Error(err)
	}
}

// TestCallOnAnotherLoop: the function is a task there, with the values of the caller's context,
// and the caller's loop goes on.
func TestCallOnAnotherLoop(t *testing.T) {
	type key struct{}
	pair(t, func(ctx context.Context, other *loop.Loop) error {
		ticked := false
		timer := spindle.LoopOf(ctx).CallLater(0, func() { ticked = true })
		defer timer.Cancel()
		n, err := spindle.CallOn(context.WithValue(ctx, key{}, 7), other, func(ctx context.Context) (int, error) {
			if spindle.LoopOf(ctx) != other || !other.Owns() {
				t.Error("not on the other loop")
			}
			return ctx.Value(key{}).(int), spindle.Sleep(ctx, 5*time.Millisecond)
		})
		if n != 7 || err != nil || !ticked {
			t.Errorf("%d, %v; the timer fired: %v", n, err, ticked)
		}
		boom := errors.New("boom")
		if n, err := spindle.CallOn(ctx, other, func(context.Context) (int, error) { return 8, boom }); n != 8 || err != boom {
			t.Errorf("%d, %v", n, err)
		}
		p := panicOf(func() error {
			_, err := spindle.CallOn(ctx, other, func(context.Context) (int, error) { panic("boom") })
			return err
		})
		if p == nil || p.Value != "boom" {
			t.Errorf("panic %v", p)
		}
		return nil
	})
}

// TestCanceledCallOnWaitsForItsFunction, which is cancelled too.
func TestCanceledCallOnWaitsForItsFunction(t *testing.T) {
	pair(t, func(ctx context.Context, other *loop.Loop) error {
		var cleaned atomic.Bool
		begun := make(chan struct{})
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			l := spindle.LoopOf(ctx)
			go func() { <-begun; l.Post(func() { s.Cancel(nil) }) }()
			_, err := spindle.CallOn(ctx, other, func(ctx context.Context) (int, error) {
				close(begun)
				err := forever(ctx)
				spindle.Shield(ctx, func(ctx context.Context) error {
					return spindle.Sleep(ctx, 5*time.Millisecond)
				})
				cleaned.Store(true)
				return 0, err
			})
			if canceled := (*spindle.Canceled)(nil); !errors.As(err, &canceled) || canceled.Scope != s {
				t.Errorf("failed with %v, not with the cancellation of the caller's scope", err)
			}
			if !cleaned.Load() {
				t.Error("CallOn has not waited")
			}
			return err
		})
		if err != nil {
			t.Errorf("the scope did not absorb its cancellation: %v", err)
		}
		return nil
	})
}

// TestCanceledCallOnKeepsAResult that its function returns in spite of the cancellation.
func TestCanceledCallOnKeepsAResult(t *testing.T) {
	pair(t, func(ctx context.Context, other *loop.Loop) error {
		begun := make(chan struct{})
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			l := spindle.LoopOf(ctx)
			go func() { <-begun; l.Post(func() { s.Cancel(nil) }) }()
			n, err := spindle.CallOn(ctx, other, func(ctx context.Context) (int, error) {
				close(begun)
				forever(ctx)
				return 9, nil
			})
			if n != 9 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			return nil
		})
	})
}

// TestCanceledCallOnALoopThatDoesNotRun does not wait for that loop, which never calls the function.
func TestCanceledCallOnALoopThatDoesNotRun(t *testing.T) {
	other := openLoop(t)
	fn := func(context.Context) (int, error) {
		t.Error("called")
		return 0, nil
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.FailAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			_, err := spindle.CallOn(ctx, other, fn)
			return err
		})
	})
	if !errors.Is(err, spindle.ErrTimeout) {
		t.Errorf("in a task: %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errCause)
	defer cancel()
	if _, err := spindle.CallOn(ctx, other, fn); err != errCause {
		t.Errorf("on a goroutine: %v", err)
	}
	if _, err := other.RunOnce(0); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestCallOnTheOwnLoop calls the function in the calling task.
func TestCallOnTheOwnLoop(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		task := spindle.Current(ctx)
		same, err := spindle.CallOn(ctx, spindle.LoopOf(ctx), func(ctx context.Context) (bool, error) {
			return spindle.Current(ctx) == task, nil
		})
		if !same || err != nil {
			t.Errorf("same task: %v, %v", same, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCallOnMisuseIsNamed: a callback cannot wait.
func TestCallOnMisuseIsNamed(t *testing.T) {
	pair(t, func(ctx context.Context, other *loop.Loop) error {
		called := spindle.NewFuture[any](ctx)
		spindle.LoopOf(ctx).CallSoon(func() {
			defer func() { called.Resolve(recover()) }()
			spindle.CallOn(ctx, other, func(context.Context) (int, error) { return 0, nil })
		})
		v, err := called.Await(ctx)
		if text, _ := v.(string); !strings.Contains(text, "CallOn called in a callback") {
			t.Errorf("panic %v", v)
		}
		return err
	})
}

// callOnClosing calls fn on a loop that closes as soon as fn waits. It returns the error of Close.
func callOnClosing(t *testing.T, fn func(context.Context) error) error {
	other := openLoop(t)
	ended := make(chan error)
	go func() { ended <- other.Run(context.Background()) }()
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		_, err := spindle.CallOn(ctx, other, func(ctx context.Context) (int, error) {
			other.Stop()
			go func() { ended <- errors.Join(<-ended, other.Close()) }()
			return 0, fn(ctx)
		})
		if err != loop.ErrClosed {
			t.Errorf("failed with %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return <-ended
}

// TestCallOnALoopThatCloses: the function that waits there is cancelled, and the caller gets
// ErrClosed.
func TestCallOnALoopThatCloses(t *testing.T) {
	if err := callOnClosing(t, forever); err != nil {
		t.Error(err)
	}
}

// TestCallOnFailsIfItsFunctionWasCanceledThere: no caller takes a call for a success if its function
// has none.
func TestCallOnFailsIfItsFunctionWasCanceledThere(t *testing.T) {
	why := errors.New("why")
	fn := func(ctx context.Context) (int, error) {
		spindle.RootNursery(ctx).Scope().Cancel(why)
		return 0, forever(ctx)
	}
	pair(t, func(ctx context.Context, other *loop.Loop) error {
		if _, err := spindle.CallOn(ctx, other, fn); err != why {
			t.Errorf("in a task: %v", err)
		}
		_, err := spindle.Blocking(ctx, func() (int, error) { return spindle.CallOn(ctx, other, fn) })
		if err != why {
			t.Errorf("on a goroutine with the context of a task: %v", err)
		}
		_, err = spindle.Blocking(ctx, func() (int, error) { return spindle.CallOn(context.Background(), other, fn) })
		if err != why {
			t.Errorf("on a goroutine: %v", err)
		}
		return nil
	})
}

// TestCallOnALoopThatClosesOnAStraggler: the function that is made to exit has no result.
func TestCallOnALoopThatClosesOnAStraggler(t *testing.T) {
	err := callOnClosing(t, func(ctx context.Context) error {
		spindle.Shield(ctx, forever)
		return spindle.Shield(ctx, forever) // here it exits
	})
	if !errors.Is(err, spindle.ErrStragglers) {
		t.Errorf("Close reports no straggler: %v", err)
	}
}

// TestCallOnPanicsWithTheOtherErrors of its function's tasks.
func TestCallOnPanicsWithTheOtherErrors(t *testing.T) {
	boom := errors.New("boom")
	pair(t, func(ctx context.Context, other *loop.Loop) error {
		p := panicOf(func() error {
			_, err := spindle.CallOn(ctx, other, func(ctx context.Context) (int, error) {
				spindle.RootNursery(ctx).Go(func(context.Context) error { panic("oops") })
				forever(ctx)
				return 0, boom
			})
			return err
		})
		if p == nil || p.Value != "oops" || !errors.Is(p.Also, boom) {
			t.Errorf("panic %v", p)
		}
		return nil
	})
}
