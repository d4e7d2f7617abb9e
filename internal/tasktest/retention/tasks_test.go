package retention_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

// TestEndedTasksKeepNothing: coroutines, tasks and timers that are kept for reuse refer to
// nothing of the tasks before.
func TestEndedTasksKeepNothing(t *testing.T) { checkAll(t, taskOperations) }

// nap waits for time in ctx, and holds a load of its own meanwhile.
func nap(ctx context.Context, w *watch) error {
	l := w.load("local variable")
	defer l.use()
	return spindle.Sleep(ctx, time.Millisecond)
}

// started starts a task with values in the nursery of the run, and waits until it has ended.
func started(ctx context.Context, w *watch, o spindle.TaskOptions, fn func(context.Context) error) error {
	l, over := w.load("function"), spindle.NewFuture[bool](ctx)
	o.Values = w.with(context.Background())
	spindle.RootNursery(ctx).GoWith(o, func(ctx context.Context) error {
		follow(w, "scope", ctx.(*spindle.Scope))
		defer over.Resolve(true)
		defer l.use()
		return fn(ctx)
	})
	_, err := over.Await(ctx)
	return err
}

var taskOperations = []operation{
	{"Go", func(ctx context.Context, w *watch) error {
		return started(ctx, w, spindle.TaskOptions{}, func(ctx context.Context) error { return nap(ctx, w) })
	}},
	{"Go, eager", func(ctx context.Context, w *watch) error {
		return started(ctx, w, spindle.TaskOptions{Eager: true}, func(ctx context.Context) error { return nap(ctx, w) })
	}},
	{"Go, without a wait", func(ctx context.Context, w *watch) error {
		return started(ctx, w, spindle.TaskOptions{Eager: true}, func(ctx context.Context) error { return nil })
	}},
	{"Go, cancelled", func(ctx context.Context, w *watch) error {
		return started(ctx, w, spindle.TaskOptions{}, func(ctx context.Context) error {
			ctx.(*spindle.Scope).Cancel(follow(w, "cause", &failure{}))
			return nap(ctx, w)
		})
	}},
	{"Go, cancelled in its wait", func(ctx context.Context, w *watch) error {
		return started(ctx, w, spindle.TaskOptions{}, func(ctx context.Context) error {
			spindle.LoopOf(ctx).CallSoon(func() { ctx.(*spindle.Scope).Cancel(follow(w, "cause", &failure{})) })
			return spindle.Sleep(ctx, time.Hour)
		})
	}},
	{"Go, in a context that is not its scope", func(ctx context.Context, w *watch) error {
		return started(ctx, w, spindle.TaskOptions{}, func(ctx context.Context) error {
			inner, cancel := context.WithCancel(w.with(ctx))
			defer cancel()
			return nap(inner, w)
		})
	}},
	{"Go, failed", func(ctx context.Context, w *watch) error {
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.OnFailure(func(error) {})
			n.Go(func(ctx context.Context) error { return errors.Join(nap(ctx, w), follow(w, "error", &failure{})) })
			return nil
		})
		return err
	}},
	{"Go, panicked", func(ctx context.Context, w *watch) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.OnFailure(func(error) {})
			n.Go(func(ctx context.Context) error {
				err := nap(w.with(ctx), w)
				panic(errors.Join(err, follow(w, "value of the panic", &failure{})))
			})
			return nil
		})
	}},
	{"Go, exited", func(ctx context.Context, w *watch) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.OnFailure(func(error) {})
			n.Go(func(ctx context.Context) error {
				if err := nap(w.with(ctx), w); err != nil {
					return err
				}
				runtime.Goexit()
				return nil
			})
			return nil
		})
	}},
	{"SetLimit", func(ctx context.Context, w *watch) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.SetLimit(1)
			for range 3 {
				l := w.load("function")
				n.Go(func(ctx context.Context) error {
					defer l.use()
					return nap(ctx, w)
				})
			}
			return nil
		})
	}},
	{"Spawn", func(ctx context.Context, w *watch) error {
		f := spindle.Spawn(spindle.RootNursery(ctx), func(ctx context.Context) (*load, error) {
			return w.load("result"), nap(w.with(ctx), w)
		})
		follow(w, "future", f)
		f.Then(w.load("callback").use)
		_, err := f.Await(w.with(ctx))
		return err
	}},
	{"Start", func(ctx context.Context, w *watch) error {
		over := spindle.NewFuture[bool](ctx)
		_, err := spindle.Start(w.with(ctx), spindle.RootNursery(ctx), func(ctx context.Context, started func(*load)) error {
			defer over.Resolve(true)
			if err := nap(ctx, w); err != nil {
				return err
			}
			started(w.load("result"))
			return nap(ctx, w)
		})
		if err == nil {
			_, err = over.Await(ctx)
		}
		return err
	}},
	{"Start, cancelled", func(ctx context.Context, w *watch) error {
		_, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			l := w.load("function")
			_, err := spindle.Start(ctx, spindle.RootNursery(ctx), func(ctx context.Context, started func(int)) error {
				defer l.use()
				return spindle.Sleep(ctx, time.Hour)
			})
			return err
		})
		return err
	}},
	{"Gather", func(ctx context.Context, w *watch) error {
		one := func(ctx context.Context) (*load, error) { return w.load("result"), nap(ctx, w) }
		_, err := spindle.Gather(w.with(ctx), one, one)
		return err
	}},
	{"Map", func(ctx context.Context, w *watch) error {
		items := []*load{w.load("item"), w.load("item"), w.load("item")}
		_, err := spindle.Map(w.with(ctx), 2, items, func(ctx context.Context, l *load) (*load, error) {
			return l, nap(ctx, w)
		})
		return err
	}},
	{"Wait", func(ctx context.Context, w *watch) error {
		a, b := spindle.NewFuture[*load](ctx), spindle.NewFuture[*load](ctx)
		spindle.LoopOf(ctx).CallSoon(func() { a.Resolve(w.load("result")) })
		_, _, err := spindle.Wait(w.with(ctx), spindle.FirstDone, follow(w, "future", a), follow(w, "future", b))
		return err
	}},
	{"MoveOnAfter", func(ctx context.Context, w *watch) error {
		_, err := spindle.MoveOnAfter(w.with(ctx), time.Millisecond, func(ctx context.Context) error {
			follow(w, "scope", ctx.(*spindle.Scope))
			return spindle.Sleep(ctx, time.Hour)
		})
		return err
	}},
	{"FailAfter", func(ctx context.Context, w *watch) error {
		return spindle.FailAfter(w.with(ctx), time.Hour, func(ctx context.Context) error {
			follow(w, "scope", ctx.(*spindle.Scope))
			return nap(ctx, w)
		})
	}},
	{"Park", func(ctx context.Context, w *watch) error {
		waker, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		spindle.LoopOf(ctx).CallSoon(func() { waker.Wake(nil) })
		l := w.load("Aborter")
		return waker.Park(ctx, "test", spindle.AbortFunc(func() bool { l.use(); return true }))
	}},
	{"Lot", func(ctx context.Context, w *watch) error {
		lot := follow(w, "Lot", &struct {
			spindle.Lot
			load
		}{})
		spindle.LoopOf(ctx).CallSoon(func() { lot.Wake(1) })
		return lot.Wait(w.with(ctx), "test")
	}},
	{"Ticker", func(ctx context.Context, w *watch) error {
		ticker := follow(w, "Ticker", spindle.NewTicker(ctx, time.Millisecond))
		return ticker.Wait(w.with(ctx))
	}},
	{"Blocking", func(ctx context.Context, w *watch) error {
		l := w.load("work")
		_, err := spindle.Blocking(w.with(ctx), func() (*load, error) { l.use(); return w.load("result"), nil })
		return err
	}},
	{"Blocking, cancelled before it began", func(ctx context.Context, w *watch) error {
		l := w.load("work")
		return spindle.WithScope(w.with(ctx), func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			_, err := spindle.Blocking(ctx, func() (*load, error) { l.use(); return nil, nil })
			return err
		})
	}},
	{"Abandon", func(ctx context.Context, w *watch) error {
		l := w.load("work")
		release := make(chan bool)
		defer close(release)
		_, err := spindle.MoveOnAfter(w.with(ctx), time.Millisecond, func(ctx context.Context) error {
			_, err := spindle.Abandon(ctx, func() (*load, error) { <-release; l.use(); return &load{}, nil })
			return err
		})
		return err
	}},
	{"CallOn", func(ctx context.Context, w *watch) error {
		l, outside := spindle.LoopOf(ctx), w.with(context.Background())
		_, err := spindle.Blocking(ctx, func() (*load, error) {
			return spindle.CallOn(outside, l, func(context.Context) (*load, error) { return w.load("result"), nil })
		})
		return err
	}},
	{"WaitReadable", func(ctx context.Context, w *watch) error {
		r, wr, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		spindle.LoopOf(ctx).CallSoon(func() { wr.Close() })
		return spindle.WaitReadable(w.with(ctx), int(r.Fd()))
	}},
}

// failure is an error that can be watched.
type failure struct{ _ load }

func (*failure) Error() string { return "on purpose" }
