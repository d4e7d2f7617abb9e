package cosync_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// flow records the values that were put and those that were got.
type flow struct{ in, out []int }

func (f *flow) check() error {
	slices.Sort(f.in)
	slices.Sort(f.out)
	if !slices.Equal(f.in, f.out) {
		return fmt.Errorf("put %v, got %v", f.in, f.out)
	}
	return nil
}

// feed puts values, beginning with from. It yields now and then, so that both sides have
// to wait.
func (f *flow) feed(ctx context.Context, from int, put func(context.Context, int) error) error {
	for v := from; v < from+6; v++ {
		if err := put(ctx, v); err != nil {
			return err
		}
		f.in = append(f.in, v)
		if v%3 == 0 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain gets values until there are no more.
func (f *flow) drain(ctx context.Context, get func(context.Context) (int, error)) error {
	for n := 0; ; n++ {
		v, err := get(ctx)
		switch {
		case err == cosync.ErrClosed || err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		f.out = append(f.out, v)
		if n%4 == 0 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
	}
}

// pipe has the operations that all queues and channels share.
type pipe struct {
	put   func(context.Context, int) error
	get   func(context.Context) (int, error)
	close func()
}

// piped is a program with two tasks on each side of a pipe. One of them is the victim.
func piped(name string, putter bool, make func() pipe) program {
	return program{name, func(w *stage) func() error {
		p := make()
		var f flow
		putting := 2
		put := func(from int) func(context.Context) error {
			return func(ctx context.Context) error {
				defer func() {
					if putting--; putting == 0 {
						p.close()
					}
				}()
				return f.feed(ctx, from, p.put)
			}
		}
		get := func(ctx context.Context) error { return f.drain(ctx, p.get) }
		w.Go(get)
		if putter {
			w.victim(put(100))
			w.Go(get)
		} else {
			w.Go(put(100))
			w.victim(get)
		}
		w.Go(put(200))
		return f.check
	}}
}

func queued(q *cosync.Queue[int]) pipe { return pipe{q.Put, q.Get, q.Close} }

func channeled(capacity int) pipe {
	tx, rx := cosync.NewChannel[int](capacity)
	return pipe{tx.Send, rx.Receive, tx.Close}
}

// selected is a channel that is only used by Select, beside cases that are never ready.
func selected() pipe {
	tx, rx := cosync.NewChannel[int](0)
	never, _ := cosync.NewChannel[int](0)
	put := func(ctx context.Context, v int) error {
		_, err := cosync.Select(ctx, cosync.Send(never, v), cosync.Send(tx, v), cosync.After(time.Hour))
		return err
	}
	get := func(ctx context.Context) (v int, err error) {
		_, err = cosync.Select(ctx, cosync.After(time.Hour), cosync.Recv(rx, &v))
		return v, err
	}
	return pipe{put, get, tx.Close}
}

func boxed() pipe {
	i := cosync.NewInbox[int](1)
	return pipe{i.Put, i.Get, i.Close}
}

// exclusive is a program in which three tasks compete for something that most tasks can
// have at a time.
func exclusive(name string, most int, make func() (acquire func(context.Context) error, release func(), left func() int)) program {
	return program{name, func(w *stage) func() error {
		acquire, release, left := make()
		inside, rounds := 0, 0
		var fault error
		use := func(ctx context.Context) error {
			for range 3 {
				if err := acquire(ctx); err != nil {
					return err
				}
				if inside++; inside > most {
					fault = fmt.Errorf("%d inside", inside)
				}
				err := spindle.Yield(ctx)
				inside--
				release()
				if err != nil {
					return err
				}
				rounds++
			}
			return nil
		}
		w.Go(use)
		w.victim(use)
		w.Go(use)
		return func() error {
			if fault == nil && (rounds < 6 || left() != 0) {
				fault = fmt.Errorf("%d rounds, %d left over", rounds, left())
			}
			return fault
		}
	}}
}

// leftOf counts the tasks that still use an object or wait for it.
func leftOf(object interface{ Statistics() cosync.Statistics }) func() int {
	return func() int {
		s := object.Statistics()
		return s.Used + s.Waiting
	}
}

var programs = []program{
	exclusive("Mutex", 1, func() (func(context.Context) error, func(), func() int) {
		var m cosync.Mutex
		return m.Lock, m.Unlock, leftOf(&m)
	}),
	exclusive("RWMutex.Lock", 1, func() (func(context.Context) error, func(), func() int) {
		var m cosync.RWMutex
		return m.Lock, m.Unlock, leftOf(&m)
	}),
	exclusive("RWMutex.RLock", 3, func() (func(context.Context) error, func(), func() int) {
		var m cosync.RWMutex
		return m.RLock, m.RUnlock, leftOf(&m)
	}),
	exclusive("Semaphore", 2, func() (func(context.Context) error, func(), func() int) {
		s := cosync.NewSemaphore(2)
		return s.Acquire, s.Release, leftOf(s)
	}),
	exclusive("Limiter", 2, func() (func(context.Context) error, func(), func() int) {
		l := cosync.NewLimiter(2)
		return l.Acquire, l.Release, leftOf(l)
	}),
	piped("Queue.Put", true, func() pipe { return queued(cosync.NewQueue[int](2)) }),
	piped("Queue.Get", false, func() pipe { return queued(cosync.NewQueue[int](2)) }),
	piped("Stack.Put", true, func() pipe { return queued(cosync.NewStack[int](1)) }),
	piped("Stack.Get", false, func() pipe { return queued(cosync.NewStack[int](1)) }),
	piped("PriorityQueue.Put", true, func() pipe {
		return queued(cosync.NewPriorityQueue(2, func(a, b int) bool { return a < b }))
	}),
	piped("Channel.Send", true, func() pipe { return channeled(0) }),
	piped("Channel.Receive", false, func() pipe { return channeled(0) }),
	piped("Channel.Send buffered", true, func() pipe { return channeled(2) }),
	piped("Channel.Receive buffered", false, func() pipe { return channeled(2) }),
	piped("Select.Send", true, selected),
	piped("Select.Recv", false, selected),
	piped("Inbox.Put", true, boxed),
	piped("Inbox.Get", false, boxed),
	{"Event", func(w *stage) func() error {
		var e cosync.Event
		woken := 0
		wait := func(ctx context.Context) error {
			err := e.Wait(ctx)
			if err == nil {
				woken++
			}
			return err
		}
		w.Go(wait)
		w.victim(wait)
		w.Go(wait)
		w.Go(func(ctx context.Context) error {
			err := settle(ctx)
			e.Set()
			return err
		})
		return func() error {
			if left := e.Statistics().Waiting; woken < 2 || left != 0 {
				return fmt.Errorf("%d woken, %d left", woken, left)
			}
			return nil
		}
	}},
	{"Cond", condProgram},
	{"Barrier", barrierProgram},
}

// condProgram is a counter that one task raises and others lower. It reaches zero if no
// notification is lost.
func condProgram(w *stage) func() error {
	c := cosync.NewCond(nil)
	stock, taken, ended := 0, 0, false
	take := func(ctx context.Context) error {
		if err := c.Lock(ctx); err != nil {
			return err
		}
		defer c.Unlock()
		for {
			for stock == 0 && !ended {
				if err := c.Wait(ctx); err != nil {
					return err
				}
				if err := spindle.Yield(ctx); err != nil { // so that the mutex is held for a while
					if stock > 0 {
						c.Notify(1) // the notification was for a task that takes
					}
					return err
				}
			}
			if stock == 0 {
				return nil
			}
			stock--
			taken++
		}
	}
	w.Go(take)
	w.victim(take)
	w.Go(take)
	w.Go(func(ctx context.Context) error {
		for range 6 {
			if err := c.Lock(ctx); err != nil {
				return err
			}
			stock++
			c.Notify(1)
			c.Unlock()
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if stock > 0 {
			return fmt.Errorf("%d left after as many notifications", stock)
		}
		if err := c.Lock(ctx); err != nil {
			return err
		}
		ended = true
		c.NotifyAll()
		c.Unlock()
		return nil
	})
	return func() error {
		if waiting, left := c.Statistics().Waiting, leftOf(c.Mutex)(); taken != 6 || waiting+left != 0 {
			return fmt.Errorf("%d taken, %d wait, %d use the mutex", taken, waiting, left)
		}
		return nil
	}
}

// barrierProgram has two tasks meet at a barrier until the victim returns.
func barrierProgram(w *stage) func() error {
	b := cosync.NewBarrier(2)
	var met [2]int
	w.victim(func(ctx context.Context) error {
		for range 5 {
			if _, err := b.Wait(ctx); err != nil {
				return err
			}
			met[0]++
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	w.Go(func(ctx context.Context) error {
		for !w.gone() {
			expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
				_, err := b.Wait(ctx)
				return err
			})
			if err != nil {
				return err
			}
			if !expired {
				met[1]++
			}
		}
		return nil
	})
	return func() error {
		if left := b.Statistics().Waiting; met[0] != met[1] || left != 0 {
			return fmt.Errorf("met %v, %d left", met, left)
		}
		return nil
	}
}
