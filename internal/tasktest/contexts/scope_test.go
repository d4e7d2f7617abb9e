package contexts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

type contextKey string

var (
	errCause = errors.New("the cause")
	errOther = errors.New("another cause")
)

// account describes a context.
func account(ctx context.Context) string {
	done := false
	select {
	case <-ctx.Done():
		done = true
	default:
	}
	return fmt.Sprintf("done %v, err %v, cause %v", done, ctx.Err(), context.Cause(ctx))
}

// behaviours use contexts derived from one that cancel cancels. Each returns what it has
// observed.
var behaviours = []struct {
	name string
	play func(ctx context.Context, cancel func(cause error)) []string
}{
	{"the context itself", func(ctx context.Context, cancel func(error)) (saw []string) {
		saw = append(saw, account(ctx))
		cancel(errCause)
		cancel(errOther)
		return append(saw, account(ctx))
	}},
	{"no cause given", func(ctx context.Context, cancel func(error)) (saw []string) {
		derived, end := context.WithCancel(ctx)
		defer end()
		cancel(nil)
		return append(saw, account(ctx), account(derived))
	}},
	{"WithCancel, cancelled from outside", func(ctx context.Context, cancel func(error)) (saw []string) {
		derived, end := context.WithCancel(ctx)
		defer end()
		saw = append(saw, account(derived))
		cancel(errCause)
		<-derived.Done()
		return append(saw, account(derived), account(ctx))
	}},
	{"WithCancel, cancelled by itself", func(ctx context.Context, cancel func(error)) (saw []string) {
		derived, end := context.WithCancel(ctx)
		end()
		saw = append(saw, account(derived), account(ctx))
		cancel(errCause)
		return append(saw, account(derived), account(ctx))
	}},
	{"WithCancel of one that has ended", func(ctx context.Context, cancel func(error)) (saw []string) {
		cancel(errCause)
		derived, end := context.WithCancel(ctx)
		defer end()
		return append(saw, account(derived))
	}},
	{"WithCancelCause, its own cause first", func(ctx context.Context, cancel func(error)) (saw []string) {
		derived, end := context.WithCancelCause(ctx)
		end(errOther)
		cancel(errCause)
		return append(saw, account(derived), account(ctx))
	}},
	{"three generations", func(ctx context.Context, cancel func(error)) (saw []string) {
		child, endChild := context.WithCancel(ctx)
		defer endChild()
		grandchild, end := context.WithCancel(context.WithValue(child, contextKey("a"), 1))
		defer end()
		cancel(errCause)
		<-grandchild.Done()
		return append(saw, account(child), account(grandchild), fmt.Sprint(grandchild.Value(contextKey("a"))))
	}},
	{"WithTimeout, far away", func(ctx context.Context, cancel func(error)) (saw []string) {
		derived, end := context.WithTimeout(ctx, time.Hour)
		defer end()
		_, has := derived.Deadline()
		saw = append(saw, account(derived), fmt.Sprint(has))
		cancel(errCause)
		<-derived.Done()
		return append(saw, account(derived))
	}},
	{"WithTimeout, in the past", func(ctx context.Context, cancel func(error)) (saw []string) {
		derived, end := context.WithTimeoutCause(ctx, -1, errOther)
		defer end()
		return append(saw, account(derived), account(ctx))
	}},
	{"WithTimeout, about to end", func(ctx context.Context, cancel func(error)) (saw []string) {
		derived, end := context.WithTimeout(ctx, time.Millisecond)
		defer end()
		<-derived.Done() // on Go's own timer, also under virtual time
		return append(saw, account(derived), account(ctx))
	}},
	{"WithValue", func(ctx context.Context, cancel func(error)) (saw []string) {
		inner := context.WithValue(context.WithValue(ctx, contextKey("a"), 1), contextKey("outside"), 2)
		for _, key := range []contextKey{"a", "outside", "nowhere"} {
			saw = append(saw, fmt.Sprint(inner.Value(key), ctx.Value(key)))
		}
		cancel(errCause)
		return append(saw, account(inner), fmt.Sprint(inner.Value(contextKey("a"))))
	}},
	{"WithoutCancel", func(ctx context.Context, cancel func(error)) (saw []string) {
		free := context.WithoutCancel(ctx)
		cancel(errCause)
		return append(saw, account(free), fmt.Sprint(free.Value(contextKey("outside"))))
	}},
	{"AfterFunc", func(ctx context.Context, cancel func(error)) (saw []string) {
		called := make(chan string, 2)
		stop := context.AfterFunc(ctx, func() { called <- account(ctx) })
		saw = append(saw, fmt.Sprint(len(called)))
		cancel(errCause)
		saw = append(saw, <-called)
		return append(saw, fmt.Sprint(stop(), len(called)))
	}},
	{"AfterFunc, stopped", func(ctx context.Context, cancel func(error)) (saw []string) {
		called := make(chan bool, 2)
		stop := context.AfterFunc(ctx, func() { called <- true })
		saw = append(saw, fmt.Sprint(stop(), stop()))
		context.AfterFunc(ctx, func() { called <- false })
		cancel(errCause)
		return append(saw, fmt.Sprint(<-called, len(called)))
	}},
	{"AfterFunc of one that has ended", func(ctx context.Context, cancel func(error)) (saw []string) {
		cancel(errCause)
		called := make(chan bool)
		stop := context.AfterFunc(ctx, func() { called <- true })
		return append(saw, fmt.Sprint(<-called, stop()))
	}},
	{"Cause of derived ones", func(ctx context.Context, cancel func(error)) (saw []string) {
		valued := context.WithValue(ctx, contextKey("a"), 1)
		derived, end := context.WithTimeout(valued, time.Hour)
		defer end()
		saw = append(saw, fmt.Sprint(context.Cause(valued), context.Cause(derived)))
		cancel(errCause)
		<-derived.Done()
		return append(saw, fmt.Sprint(context.Cause(valued), context.Cause(derived)))
	}},
}

// TestScopesBehaveAsStandardContexts compares a standard context with a scope that is
// cancelled itself, and with one that is cancelled by the scope around it.
func TestScopesBehaveAsStandardContexts(t *testing.T) {
	outside := context.WithValue(t.Context(), contextKey("outside"), "value")
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(outside)
			defer cancel(nil)
			want := b.play(ctx, cancel)
			err := sim.Run(outside, func(ctx context.Context) error {
				compare := func(which string, ctx context.Context, cancel func(error)) {
					if got := b.play(ctx, cancel); !slices.Equal(got, want) {
						t.Errorf("%s:\n got %q\nwant %q", which, got, want)
					}
				}
				err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					compare("a scope", ctx, s.Cancel)
					return nil
				})
				return errors.Join(err, spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
					return spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error {
						compare("a scope inside another", ctx, outer.Cancel)
						return nil
					})
				}))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDeadlineOfAScopeIsAContexts: Deadline reports it, and it ends derived contexts. Leaving
// a scope ends them too, as a deferred cancel would.
func TestDeadlineOfAScopeIsAContexts(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		var left context.Context
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			var end func()
			left, end = context.WithCancel(ctx)
			t.Cleanup(end)
			if when, ok := ctx.Deadline(); ok {
				t.Errorf("there is no deadline, but it is %v", when)
			}
			s.SetDeadline(spindle.Now(ctx).Add(time.Hour))
			of := func(d time.Duration) time.Time {
				derived, cancel := context.WithTimeout(ctx, d)
				defer cancel()
				when, _ := derived.Deadline()
				return when
			}
			when, ok := ctx.Deadline()
			if nearer := of(time.Minute); !ok || !nearer.Before(when) {
				t.Errorf("a nearer deadline than %v became %v", when, nearer)
			}
			// The wall clock is read anew each time, so that the same deadline is
			// told with some noise.
			if farther := of(2 * time.Hour); farther.Sub(when).Abs() > time.Minute {
				t.Errorf("a farther deadline than %v became %v", when, farther)
			}
			s.SetDeadline(spindle.Now(ctx).Add(-1))
			want := "done true, err context deadline exceeded, cause context deadline exceeded"
			if got := account(left); got != want || account(ctx) != want {
				t.Errorf("derived: %s; scope: %s", got, account(ctx))
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			var end func()
			left, end = context.WithCancel(ctx)
			t.Cleanup(end)
			return nil
		})
		if got, want := account(left), "done true, err context canceled, cause context canceled"; got != want {
			t.Errorf("derived from a scope that has ended: %s", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNearestDeadlineIsReported: that of the scopes around, up to a shield.
func TestNearestDeadlineIsReported(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begin := spindle.LoopOf(ctx).Internal().Kernel().Wall()
		want := func(ctx context.Context, d time.Duration) {
			t.Helper()
			when, ok := ctx.Deadline()
			if got := when.Sub(begin); ok != (d != 0) || ok && got != d {
				t.Errorf("deadline %v, %v, want %v", got, ok, d)
			}
		}
		want(ctx, 0)
		return spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
			outer.SetDeadline(loopTime(outer, time.Hour))
			return spindle.WithScope(ctx, func(ctx context.Context, inner *spindle.Scope) error {
				want(ctx, time.Hour)
				inner.SetDeadline(loopTime(inner, 2*time.Hour))
				want(ctx, time.Hour)
				inner.SetDeadline(loopTime(inner, time.Minute))
				want(ctx, time.Minute)
				inner.SetDeadline(time.Time{})
				inner.SetShield(true)
				want(ctx, 0)
				return nil
			})
		})
	})
}

// contextWatchers counts the goroutines that the context package has started to
// watch contexts.
func contextWatchers() int {
	buf := make([]byte, 1<<20)
	return bytes.Count(buf[:runtime.Stack(buf, true)], []byte("context.(*cancelCtx).propagateCancel"))
}

// TestDerivedContextsStartNoGoroutine: the context package starts one where it cannot link
// contexts directly.
func TestDerivedContextsStartNoGoroutine(t *testing.T) {
	watchers := contextWatchers
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			before, strange := runtime.NumGoroutine(), watchers()
			for range 10 {
				a, endA := context.WithCancel(ctx)
				defer endA()
				b, endB := context.WithTimeout(context.WithValue(a, contextKey("a"), 1), time.Hour)
				defer endB()
				c, endC := context.WithCancelCause(b)
				defer endC(nil)
				defer context.AfterFunc(c, func() {})()
				defer context.AfterFunc(ctx, func() {})()
				if err := spindle.Sleep(c, time.Second); err != nil { // a wait binds them too
					return err
				}
			}
			if n := runtime.NumGoroutine(); n > before || watchers() > strange {
				t.Errorf("%d goroutines before, %d after; of the context package %d and %d", before, n, strange, watchers())
			}
			// The test sees such goroutines, if there are any.
			_, end := context.WithCancel(struct{ context.Context }{foreign{ctx}})
			defer end()
			if watchers() == strange {
				t.Error("nothing would have been seen")
			}
			return nil
		})
	})
}

// foreign is a context that the context package cannot link to directly.
type foreign struct{ context.Context }

func (foreign) Value(any) any { return nil }
