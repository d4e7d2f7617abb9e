package cosync

import (
	"context"
	"io"
	"iter"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
)

// NewChannel makes a channel that holds up to capacity values, and returns its two ends.
// With capacity 0 a value goes directly from task to task: Send returns when the value
// was received.
//
// Each end can be cloned, so that each task has its own and closes it when done. When the
// last sender is closed, receivers get the values that are left, and then io.EOF. When
// the last receiver is closed, senders get ErrBroken. The channels correspond to Trio's
// memory channels.
func NewChannel[T any](capacity int) (*Sender[T], *Receiver[T]) {
	if capacity < 0 {
		panic("cosync: NewChannel with a negative capacity")
	}
	c := &channel[T]{capacity: capacity, senders: 1, receivers: 1}
	c.sending.object, c.receiving.object = c, c
	return &Sender[T]{c: c}, &Receiver[T]{c: c}
}

// channel is the state that the ends share. Loop goroutine only.
type channel[T any] struct {
	taskAffinity
	capacity  int
	values    ring[T]
	sending   waitQueue[T]
	receiving waitQueue[T]
	senders   int // open ones
	receivers int
}

// partlyFull reports whether the channel holds values and has space for more. Then no task
// waits at either end, and a receiver is open.
func (c *channel[T]) partlyFull() bool { return 0 < c.values.n && c.values.n < c.capacity }

// taskAffinity is an affinity that also knows the tasks of the loop, for tryPass. It is not
// part of the generic type: the compiler would not inline its methods.
type taskAffinity struct {
	affinity
	tasks *coro.Scheduler // of the loop; nil until a task uses the object
}

// checkTask is affinity.checkTask.
func (a *taskAffinity) checkTask(w spindle.Waker, name string) {
	if coro.Waker(w).Scheduler() != a.tasks {
		a.bindTask(w, name)
	}
}

// bindTask is checkTask for the first task, and for one of another scheduler.
func (a *taskAffinity) bindTask(w spindle.Waker, name string) {
	a.affinity.checkTask(w, name)
	a.tasks = coro.Waker(w).Scheduler()
}

// endpoint is one clone of an end of a channel.
type endpoint struct{ closed bool }

// Sender is the end of a channel that sends values.
type Sender[T any] struct {
	endpoint
	c *channel[T]
}

// Receiver is the end of a channel that receives values.
type Receiver[T any] struct {
	endpoint
	c *channel[T]
}

// Send waits until v is in the channel, or with capacity 0 until v was received. If Send
// fails, v will not be received. It fails with ErrClosed if this sender is closed, and
// with ErrBroken if every receiver is closed.
func (s *Sender[T]) Send(ctx context.Context, v T) error {
	c := s.c
	switch {
	case c.partlyFull() && !s.closed:
		if tryPass(ctx, c.tasks) {
			c.values.push(v)
			return nil
		}
	case (c.values.n < c.capacity || c.receiving.first != nil) && tryPass(ctx, c.tasks):
		_, err := s.try(v)
		return err
	}
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	c.checkTask(waker, "Channel")
	if done, err := s.try(v); done {
		waker.Pass()
		return err
	}
	w := c.sending.join(waker, v, &s.endpoint)
	sw, err := coro.Waker(waker).Leave(ctx, "Channel.Send", w)
	for sw != nil {
		sw()
		sw, err = coro.Waker(waker).Back()
	}
	c.sending.release(w)
	return err
}

// TrySend is like Send but fails with ErrWouldBlock instead of waiting.
func (s *Sender[T]) TrySend(v T) error {
	s.c.checkCaller("Channel")
	done, err := s.try(v)
	if !done {
		return ErrWouldBlock
	}
	return err
}

func (s *Sender[T]) try(v T) (done bool, err error) {
	c := s.c
	switch {
	case s.closed:
		return true, ErrClosed
	case c.receivers == 0:
		return true, ErrBroken
	case c.receiving.first != nil:
		c.receiving.give(v)
		return true, nil
	case c.values.n < c.capacity:
		c.values.push(v)
		return true, nil
	}
	return false, nil
}

// Clone returns another sender of the same channel. Each sender is closed separately.
func (s *Sender[T]) Clone() *Sender[T] {
	s.c.checkCaller("Channel")
	if s.closed {
		panic("cosync: Clone of a closed Sender")
	}
	s.c.senders++
	return &Sender[T]{c: s.c}
}

// Close closes this sender. Tasks that wait in its Send get ErrClosed. If it was the last
// open sender, the channel ends for the receivers. Closing a sender again does nothing.
func (s *Sender[T]) Close() {
	c := s.c
	c.checkCaller("Channel")
	if s.closed {
		return
	}
	s.closed = true
	c.sending.failEndpoint(&s.endpoint, ErrClosed)
	if c.senders--; c.senders == 0 {
		c.receiving.fail(io.EOF)
	}
}

// Receive waits for a value and removes it from the channel. If Receive fails, it has
// removed none. It fails with io.EOF if every sender is closed and all values were
// received, and with ErrClosed if this receiver is closed.
func (r *Receiver[T]) Receive(ctx context.Context) (T, error) {
	c := r.c
	switch {
	case c.partlyFull() && !r.closed:
		if tryPass(ctx, c.tasks) {
			return c.values.pop(), nil
		}
	case (c.values.n > 0 || c.sending.first != nil) && tryPass(ctx, c.tasks):
		v, _, err := r.try()
		return v, err
	}
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	c.checkTask(waker, "Channel")
	v, done, err := r.try()
	if done {
		waker.Pass()
		return v, err
	}
	w := c.receiving.join(waker, v, &r.endpoint)
	sw, err := coro.Waker(waker).Leave(ctx, "Channel.Receive", w)
	for sw != nil {
		sw()
		sw, err = coro.Waker(waker).Back()
	}
	v = w.value
	c.receiving.release(w)
	return v, err
}

// TryReceive is like Receive but fails with ErrWouldBlock instead of waiting.
func (r *Receiver[T]) TryReceive() (T, error) {
	r.c.checkCaller("Channel")
	v, done, err := r.try()
	if !done {
		err = ErrWouldBlock
	}
	return v, err
}

func (r *Receiver[T]) try() (v T, done bool, err error) {
	c := r.c
	switch {
	case r.closed:
		return v, true, ErrClosed
	case c.values.n > 0:
		v = c.values.pop()
		if c.sending.first != nil {
			w := c.sending.take()
			c.values.push(w.value)
			w.waker.Wake(nil)
		}
		return v, true, nil
	case c.sending.first != nil:
		w := c.sending.take()
		v = w.value
		w.waker.Wake(nil)
		return v, true, nil
	case c.senders == 0:
		return v, true, io.EOF
	}
	return v, false, nil
}

// All yields values until the channel ends. If Receive fails otherwise, All yields the
// error and stops.
func (r *Receiver[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return all(ctx, r.Receive, io.EOF)
}

// all yields the values of next until next fails. It yields that error too, unless it is
// end.
func all[T any](ctx context.Context, next func(context.Context) (T, error), end error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			v, err := next(ctx)
			if err == end || !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Clone returns another receiver of the same channel. Each value goes to one receiver.
// Each receiver is closed separately.
func (r *Receiver[T]) Clone() *Receiver[T] {
	r.c.checkCaller("Channel")
	if r.closed {
		panic("cosync: Clone of a closed Receiver")
	}
	r.c.receivers++
	return &Receiver[T]{c: r.c}
}

// Close closes this receiver. Tasks that wait in its Receive get ErrClosed. If it was the
// last open receiver, senders get ErrBroken, and the values in the channel are dropped.
// Closing a receiver again does nothing.
func (r *Receiver[T]) Close() {
	c := r.c
	c.checkCaller("Channel")
	if r.closed {
		return
	}
	r.closed = true
	c.receiving.failEndpoint(&r.endpoint, ErrClosed)
	if c.receivers--; c.receivers == 0 {
		c.sending.fail(ErrBroken)
		c.values = ring[T]{}
	}
}

// Statistics returns the present use of the channel.
func (r *Receiver[T]) Statistics() Statistics { return r.c.statistics() }

func (c *channel[T]) statistics() Statistics {
	c.checkReader("Channel")
	return Statistics{
		Used: c.values.n, Capacity: c.capacity,
		Waiting: c.receiving.n, Putting: c.sending.n,
		Senders: c.senders, Receivers: c.receivers,
	}
}
