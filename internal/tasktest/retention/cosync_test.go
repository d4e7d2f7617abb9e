package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// TestEndedCosyncWaitsKeepNothing: what tasks wait for stays in use, and keeps neither the
// tasks nor the values that have passed.
func TestEndedCosyncWaitsKeepNothing(t *testing.T) { checkAll(t, cosyncOperations) }

// together runs functions in tasks, each with a context that w watches.
func together(ctx context.Context, w *watch, fns ...func(context.Context) error) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		for _, fn := range fns {
			n.GoWith(spindle.TaskOptions{Values: w.with(ctx)}, func(ctx context.Context) error {
				follow(w, "scope", ctx.(*spindle.Scope))
				return fn(ctx)
			})
		}
		return nil
	})
}

// timedOut calls fn, which waits, with a deadline.
func timedOut(ctx context.Context, w *watch, fn func(context.Context) error) error {
	expired, err := spindle.MoveOnAfter(w.with(ctx), time.Millisecond, fn)
	if !expired && err == nil {
		err = errors.New("the wait has ended by itself")
	}
	return err
}

var cosyncOperations = []operation{
	{"Queue", func(ctx context.Context, w *watch) error {
		q := cosync.NewQueue[*load](1)
		w.keep = append(w.keep, q)
		return errors.Join(together(ctx, w,
			func(ctx context.Context) error {
				for range 5 {
					if err := q.Put(ctx, w.load("value")); err != nil {
						return err
					}
				}
				return nil
			},
			func(ctx context.Context) error {
				for range 5 {
					if _, err := q.Get(ctx); err != nil {
						return err
					}
				}
				return nil
			}),
			timedOut(ctx, w, func(ctx context.Context) error { _, err := q.Get(ctx); return err }))
	}},
	{"Queue, full", func(ctx context.Context, w *watch) error {
		q := cosync.NewQueue[*load](1)
		w.keep = append(w.keep, q)
		return errors.Join(q.Put(ctx, &load{}), timedOut(ctx, w, func(ctx context.Context) error { return q.Put(ctx, w.load("value")) }))
	}},
	{"PriorityQueue", func(ctx context.Context, w *watch) error {
		q := cosync.NewPriorityQueue(8, func(a, b *load) bool { return a.data[0] < b.data[0] })
		w.keep = append(w.keep, q)
		for range 3 {
			if err := q.Put(ctx, w.load("value")); err != nil {
				return err
			}
		}
		for range 3 {
			if _, err := q.Get(ctx); err != nil {
				return err
			}
		}
		return nil
	}},
	{"Stack", func(ctx context.Context, w *watch) error {
		q := cosync.NewStack[*load](8)
		w.keep = append(w.keep, q)
		err := q.Put(ctx, w.load("value"))
		_, e := q.Get(ctx)
		return errors.Join(err, e)
	}},
	{"Channel", func(ctx context.Context, w *watch) error {
		s, r := cosync.NewChannel[*load](0)
		w.keep = append(w.keep, s, r)
		receive := func(ctx context.Context) error { _, err := r.Receive(ctx); return err }
		send := func(ctx context.Context) error { return s.Send(ctx, w.load("value")) }
		return errors.Join(together(ctx, w, send, receive), together(ctx, w, receive, send), timedOut(ctx, w, send), timedOut(ctx, w, receive))
	}},
	{"Channel, buffered", func(ctx context.Context, w *watch) error {
		s, r := cosync.NewChannel[*load](2)
		w.keep = append(w.keep, s, r)
		err := s.Send(ctx, w.load("value"))
		_, e := r.Receive(ctx)
		return errors.Join(err, e)
	}},
	{"Select", func(ctx context.Context, w *watch) error {
		s, r := cosync.NewChannel[*load](0)
		s2, r2 := cosync.NewChannel[*load](0)
		f := spindle.NewFuture[int](ctx)
		w.keep = append(w.keep, s, r, s2, r2, f)
		choose := func(ctx context.Context) error {
			var v *load
			_, err := cosync.Select(ctx, cosync.Recv(r, &v), cosync.Send(s2, w.load("value")), cosync.Done(f), cosync.After(time.Hour))
			return err
		}
		return errors.Join(
			together(ctx, w, choose, func(ctx context.Context) error { return s.Send(ctx, w.load("value")) }),
			timedOut(ctx, w, choose))
	}},
	{"Inbox", func(ctx context.Context, w *watch) error {
		b := cosync.NewInbox[*load](1)
		w.keep = append(w.keep, b)
		get := func(ctx context.Context) error { _, err := b.Get(ctx); return err }
		return errors.Join(
			together(ctx, w, get, func(ctx context.Context) error { return b.Put(ctx, w.load("value")) }),
			timedOut(ctx, w, get))
	}},
	{"Mutex", func(ctx context.Context, w *watch) error {
		m := &cosync.Mutex{}
		w.keep = append(w.keep, m)
		lock := func(ctx context.Context) error {
			if err := m.Lock(ctx); err != nil {
				return err
			}
			defer m.Unlock()
			return nap(ctx, w)
		}
		return errors.Join(together(ctx, w, lock, lock), m.Lock(ctx), timedOut(ctx, w, m.Lock))
	}},
	{"RWMutex", func(ctx context.Context, w *watch) error {
		m := &cosync.RWMutex{}
		w.keep = append(w.keep, m)
		return errors.Join(m.Lock(ctx), timedOut(ctx, w, m.RLock), timedOut(ctx, w, m.Lock))
	}},
	{"Semaphore", func(ctx context.Context, w *watch) error {
		s := cosync.NewSemaphore(1)
		w.keep = append(w.keep, s)
		return errors.Join(s.Acquire(ctx), timedOut(ctx, w, s.Acquire))
	}},
	{"Limiter", func(ctx context.Context, w *watch) error {
		l := cosync.NewLimiter(1)
		w.keep = append(w.keep, l)
		borrower := w.load("borrower")
		err := l.AcquireFor(ctx, borrower)
		late := timedOut(ctx, w, l.Acquire)
		l.ReleaseFor(borrower)
		return errors.Join(err, late)
	}},
	{"Event", func(ctx context.Context, w *watch) error {
		e := &cosync.Event{}
		w.keep = append(w.keep, e)
		return errors.Join(
			timedOut(ctx, w, e.Wait),
			together(ctx, w, e.Wait, func(context.Context) error { e.Set(); return nil }))
	}},
	{"Cond", func(ctx context.Context, w *watch) error {
		m := &cosync.Mutex{}
		c := cosync.NewCond(m)
		w.keep = append(w.keep, m, c)
		return errors.Join(m.Lock(ctx), timedOut(ctx, w, c.Wait))
	}},
	{"Barrier", func(ctx context.Context, w *watch) error {
		b := cosync.NewBarrier(2)
		w.keep = append(w.keep, b)
		wait := func(ctx context.Context) error { _, err := b.Wait(ctx); return err }
		return together(ctx, w, wait, wait)
	}},
}
