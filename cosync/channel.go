package cosync

import (
	"context"
	"iter"

	"github.com/spindleloop/spindle"
)

// NewChannel makes a channel that holds up to capacity values, and returns its
// two ends. With capacity 0 a value goes from hand to hand: Send returns when
// somebody has received it.
//
// Each end can be cloned, so that each task has its own and closes it when done.
// When the last sender is closed, receivers get what is left and then ErrEnd;
// when the last receiver is closed, senders get ErrBroken. They are Trio's memory
// channels.
func NewChannel[T any](capacity int) (*Sender[T], *Receiver[T]) {
	if capacity < 0 {
		panic("cosync: NewChannel with a negative capacity")
	}
	c := &channel[T]{capacity: capacity, senders: 1, receivers: 1}
	return &Sender[T]{c: c}, &Receiver[T]{c: c}
}

// channel is what the ends share. Loop goroutine only.
type channel[T any] struct {
	home
	capacity  int
	kept      ring[T]
	sending   line[T]
	receiving line[T]
	senders   int // open ones
	receivers int
}

// flows tells whether there are values in the channel and room for more. Then nobody
// waits at either end, and a receiver is open.
func (c *channel[T]) flows() bool { return 0 < c.kept.n && c.kept.n < c.capacity }

// side is one clone of an end of a channel.
type side struct{ closed bool }

// Sender is the end of a channel that values are put into.
type Sender[T any] struct {
	side
	c *channel[T]
}

// Receiver is the end of a channel that values come out of.
type Receiver[T any] struct {
	side
	c *channel[T]
}

// Send waits until the value is in the channel, or with capacity 0 until it was
// received. If it fails, nobody has got the value or will: with ErrClosed if this
// sender is closed, with ErrBroken if no receiver is left.
func (s *Sender[T]) Send(ctx context.Context, v T) error {
	c := s.c
	switch {
	case c.flows() && !s.closed:
		if spindle.Quick(ctx, c.l) {
			c.kept.push(v)
			return nil
		}
	case (c.kept.n < c.capacity || c.receiving.first != nil) && spindle.Quick(ctx, c.l):
		_, err := s.try(v)
		return err
	}
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	c.admit(waker, "Channel")
	if done, err := s.try(v); done {
		waker.Pass()
		return err
	}
	w := c.sending.join(waker, v, &s.side)
	sw, err := waker.Leave(ctx, "Channel.Send", w)
	for sw != nil {
		sw()
		sw, err = waker.Back()
	}
	c.sending.put(w)
	return err
}

// TrySend is Send that fails with ErrWouldBlock instead of waiting.
func (s *Sender[T]) TrySend(v T) error {
	s.c.here("Channel")
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
	case c.kept.n < c.capacity:
		c.kept.push(v)
		return true, nil
	}
	return false, nil
}

// Clone makes another sender of the same channel, to be closed on its own.
func (s *Sender[T]) Clone() *Sender[T] {
	s.c.here("Channel")
	if s.closed {
		panic("cosync: Clone of a Sender that is closed")
	}
	s.c.senders++
	return &Sender[T]{c: s.c}
}

// Close closes this sender: tasks that wait in its Send get ErrClosed. If it was
// the last, the channel ends for the receivers. Closing twice does nothing.
func (s *Sender[T]) Close() {
	c := s.c
	c.here("Channel")
	if s.closed {
		return
	}
	s.closed = true
	c.sending.failSide(&s.side, ErrClosed)
	if c.senders--; c.senders == 0 {
		c.receiving.fail(ErrEnd)
	}
}

// Receive waits for a value. If it fails, it has taken none: with ErrEnd if no
// sender is left and everything was received, with ErrClosed if this receiver is
// closed.
func (r *Receiver[T]) Receive(ctx context.Context) (T, error) {
	c := r.c
	switch {
	case c.flows() && !r.closed:
		if spindle.Quick(ctx, c.l) {
			return c.kept.pop(), nil
		}
	case (c.kept.n > 0 || c.sending.first != nil) && spindle.Quick(ctx, c.l):
		v, _, err := r.try()
		return v, err
	}
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	c.admit(waker, "Channel")
	v, done, err := r.try()
	if done {
		waker.Pass()
		return v, err
	}
	w := c.receiving.join(waker, v, &r.side)
	sw, err := waker.Leave(ctx, "Channel.Receive", w)
	for sw != nil {
		sw()
		sw, err = waker.Back()
	}
	v = w.value
	c.receiving.put(w)
	return v, err
}

// TryReceive is Receive that fails with ErrWouldBlock instead of waiting.
func (r *Receiver[T]) TryReceive() (T, error) {
	r.c.here("Channel")
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
	case c.kept.n > 0:
		v = c.kept.pop()
		if c.sending.first != nil {
			w := c.sending.take()
			c.kept.push(w.value)
			w.waker.Wake(nil)
		}
		return v, true, nil
	case c.sending.first != nil:
		w := c.sending.take()
		v = w.value
		w.waker.Wake(nil)
		return v, true, nil
	case c.senders == 0:
		return v, true, ErrEnd
	}
	return v, false, nil
}

// All yields what is received until the channel ends. If receiving fails
// otherwise, it yields the error and stops.
func (r *Receiver[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return all(ctx, r.Receive, ErrEnd)
}

// all yields what next brings until it fails with end.
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

// Clone makes another receiver of the same channel, to be closed on its own.
// Each value goes to one of them.
func (r *Receiver[T]) Clone() *Receiver[T] {
	r.c.here("Channel")
	if r.closed {
		panic("cosync: Clone of a Receiver that is closed")
	}
	r.c.receivers++
	return &Receiver[T]{c: r.c}
}

// Close closes this receiver: tasks that wait in its Receive get ErrClosed. If it
// was the last, senders get ErrBroken, and what is still in the channel is
// dropped. Closing twice does nothing.
func (r *Receiver[T]) Close() {
	c := r.c
	c.here("Channel")
	if r.closed {
		return
	}
	r.closed = true
	c.receiving.failSide(&r.side, ErrClosed)
	if c.receivers--; c.receivers == 0 {
		c.sending.fail(ErrBroken)
		c.kept = ring[T]{}
	}
}

// Statistics returns the present use of the channel.
func (s *Sender[T]) Statistics() Statistics { return s.c.statistics() }

// Statistics returns the present use of the channel.
func (r *Receiver[T]) Statistics() Statistics { return r.c.statistics() }

func (c *channel[T]) statistics() Statistics {
	c.look("Channel")
	return Statistics{
		Used: c.kept.n, Capacity: c.capacity,
		Waiting: c.receiving.n, Putting: c.sending.n,
		Senders: c.senders, Receivers: c.receivers,
	}
}
