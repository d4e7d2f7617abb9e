package cancelpoints_test

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// drawn returns a call that takes the first value of a sequence.
func drawn(all func(context.Context) iter.Seq2[int, error]) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, err := range all(ctx) {
			return err
		}
		return errors.New("the sequence has ended")
	}
}

// fresh is a prepare that makes the call anew each time, with an object of its own.
func fresh(make func(ctx context.Context) (func(context.Context) error, error)) func(context.Context, *spindle.Nursery, func(func())) (func(context.Context) error, error) {
	return func(ctx context.Context, _ *spindle.Nursery, _ func(func())) (func(context.Context) error, error) {
		return make(ctx)
	}
}

// cosyncWaits are the waits of package cosync.
var cosyncWaits = []wait{
	{name: "cosync.Mutex.Lock", prepare: fresh(func(ctx context.Context) (func(context.Context) error, error) {
		m := new(cosync.Mutex)
		return m.Lock, m.Lock(ctx)
	})},
	{name: "cosync.RWMutex.Lock", prepare: fresh(func(ctx context.Context) (func(context.Context) error, error) {
		m := new(cosync.RWMutex)
		return m.Lock, m.RLock(ctx)
	})},
	{name: "cosync.RWMutex.RLock", prepare: fresh(func(ctx context.Context) (func(context.Context) error, error) {
		m := new(cosync.RWMutex)
		return m.RLock, m.Lock(ctx)
	})},
	{name: "cosync.Cond.Wait", prepare: fresh(func(ctx context.Context) (func(context.Context) error, error) {
		m := new(cosync.Mutex)
		c := cosync.NewCond(m)
		return func(ctx context.Context) error {
			if err := m.Lock(ctx); err != nil {
				return err
			}
			defer m.Unlock()
			return c.Wait(ctx)
		}, nil
	})},
	{name: "cosync.Event.Wait", prepare: fresh(func(context.Context) (func(context.Context) error, error) { return new(cosync.Event).Wait, nil })},
	{name: "cosync.Barrier.Wait", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		b := cosync.NewBarrier(2)
		return func(ctx context.Context) error { _, err := b.Wait(ctx); return err }, nil
	})},
	{name: "cosync.Semaphore.Acquire", prepare: fresh(func(ctx context.Context) (func(context.Context) error, error) {
		s := cosync.NewSemaphore(1)
		return s.Acquire, s.Acquire(ctx)
	})},
	{name: "cosync.Limiter.Acquire", prepare: fresh(func(context.Context) (func(context.Context) error, error) { return cosync.NewLimiter(0).Acquire, nil })},
	{name: "cosync.Limiter.AcquireFor", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		l := cosync.NewLimiter(0)
		return func(ctx context.Context) error { return l.AcquireFor(ctx, 1) }, nil
	})},
	{name: "cosync.Queue.Get", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		q := cosync.NewQueue[int](1)
		return func(ctx context.Context) error { _, err := q.Get(ctx); return err }, nil
	})},
	{name: "cosync.Queue.Put", prepare: fresh(func(ctx context.Context) (func(context.Context) error, error) {
		q := cosync.NewQueue[int](1)
		return func(ctx context.Context) error { return q.Put(ctx, 1) }, q.Put(ctx, 1)
	})},
	{name: "cosync.Queue.All", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		return drawn(cosync.NewQueue[int](1).All), nil
	})},
	{name: "cosync.Sender.Send", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		s, _ := cosync.NewChannel[int](0)
		return func(ctx context.Context) error { return s.Send(ctx, 1) }, nil
	})},
	{name: "cosync.Receiver.Receive", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		_, r := cosync.NewChannel[int](0)
		return func(ctx context.Context) error { _, err := r.Receive(ctx); return err }, nil
	})},
	{name: "cosync.Receiver.All", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		_, r := cosync.NewChannel[int](0)
		return drawn(r.All), nil
	})},
	{name: "cosync.Select", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		s, _ := cosync.NewChannel[int](0)
		return func(ctx context.Context) error {
			_, err := cosync.Select(ctx, cosync.Send(s, 1), cosync.After(time.Hour))
			return err
		}, nil
	})},
	{name: "cosync.Inbox.Get", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		b := cosync.NewInbox[int](1)
		return func(ctx context.Context) error { _, err := b.Get(ctx); return err }, nil
	})},
	{name: "cosync.Inbox.Put", prepare: fresh(func(ctx context.Context) (func(context.Context) error, error) {
		b := cosync.NewInbox[int](1)
		return func(ctx context.Context) error { return b.Put(ctx, 1) }, b.Put(ctx, 1)
	})},
	{name: "cosync.Inbox.All", prepare: fresh(func(context.Context) (func(context.Context) error, error) {
		return drawn(cosync.NewInbox[int](1).All), nil
	})},
}
