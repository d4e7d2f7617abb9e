package cosync

import (
	"context"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// Case is one of the things that Select waits for. Recv, Send, Done and After
// make them. A case can be used again, but not by two at a time.
type Case interface {
	// enter checks that the case is of ctx's loop, and not in use.
	enter(ctx context.Context)
	// try takes effect at once if it can.
	try() (done bool, err error)
	// join has the case choose itself in s when it can take effect.
	join(s *selection, index int)
	// leave takes join back.
	leave()
	// finish is what is left to do for the one that was chosen, and ended with
	// err.
	finish(err error)
}

// Select waits until one of the cases can take effect, lets it, and returns its
// index; of the others none has taken effect. The error is that of the case:
// ErrEnd, ErrBroken or ErrClosed of its channel. If ctx is cancelled, none has
// taken effect, and the index is -1.
//
//	var job Job
//	switch i, err := cosync.Select(ctx, cosync.Recv(jobs, &job), cosync.After(time.Minute)); {
//	case err != nil:
//		return err
//	case i == 0:
//		return work(ctx, job)
//	default:
//		return errIdle
//	}
//
// While it waits, the first to be ready is taken. If several are ready when it
// begins, it is the first of the list: so the order is the same in every run, and
// what is urgent can be put first. After(0) at the end is what default is to
// Go's select.
func Select(ctx context.Context, cases ...Case) (int, error) {
	if len(cases) == 0 {
		panic("cosync: Select without cases")
	}
	if err := spindle.Checkpoint(ctx); err != nil {
		return -1, err
	}
	for i, c := range cases {
		c.enter(ctx)
		mustBeIdle(slices.Contains(cases[:i], c))
	}
	for i, c := range cases {
		if done, err := c.try(); done {
			return i, err
		}
	}
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		return -1, err
	}
	s := &selection{cases: cases, waker: waker, chosen: -1}
	for i, c := range cases {
		c.join(s, i)
	}
	err = waker.Park(ctx, "Select", s)
	if s.chosen >= 0 {
		cases[s.chosen].finish(err)
	}
	return s.chosen, err
}

// selection is a Select that waits. Loop goroutine only.
type selection struct {
	cases  []Case
	waker  spindle.Waker
	chosen int // -1 as long as none is
}

// Abort takes all cases back.
func (s *selection) Abort() bool {
	if s.chosen >= 0 {
		return false
	}
	for _, c := range s.cases {
		c.leave()
	}
	return true
}

// choose settles on a case: the others leave at once, so that whoever is found
// waiting can still be served. The task must then be woken.
func (s *selection) choose(index int) {
	s.chosen = index
	for i, c := range s.cases {
		if i != index {
			c.leave()
		}
	}
}

// Recv is the case that a value is received; it is then in *into.
func Recv[T any](r *Receiver[T], into *T) Case {
	if into == nil {
		panic("cosync: Recv into nil")
	}
	return &recvCase[T]{r: r, into: into}
}

type recvCase[T any] struct {
	r    *Receiver[T]
	into *T
	w    waiter[T]
}

func (c *recvCase[T]) enter(ctx context.Context) {
	c.r.c.enter(ctx, "Channel")
	mustBeIdle(c.w.line != nil)
}

func (c *recvCase[T]) try() (bool, error) {
	v, done, err := c.r.try()
	if done && err == nil {
		*c.into = v
	}
	return done, err
}

func (c *recvCase[T]) join(s *selection, index int) {
	c.w = waiter[T]{waker: s.waker, sel: s, index: index, side: &c.r.side}
	c.r.c.receiving.push(&c.w)
}

func (c *recvCase[T]) leave() { c.w.leave() }

func (c *recvCase[T]) finish(err error) {
	if err == nil {
		*c.into = c.w.value
	}
	c.w = waiter[T]{}
}

// Send is the case that v is sent.
func Send[T any](s *Sender[T], v T) Case { return &sendCase[T]{s: s, v: v} }

type sendCase[T any] struct {
	s *Sender[T]
	v T
	w waiter[T]
}

func (c *sendCase[T]) enter(ctx context.Context) {
	c.s.c.enter(ctx, "Channel")
	mustBeIdle(c.w.line != nil)
}

func (c *sendCase[T]) try() (bool, error) { return c.s.try(c.v) }

func (c *sendCase[T]) join(s *selection, index int) {
	c.w = waiter[T]{value: c.v, waker: s.waker, sel: s, index: index, side: &c.s.side}
	c.s.c.sending.push(&c.w)
}

func (c *sendCase[T]) leave()       { c.w.leave() }
func (c *sendCase[T]) finish(error) {}

// Done is the case that a future has a result, be it an error: ask the future.
func Done(f spindle.Awaitable) Case { return &doneCase{f: f} }

type doneCase struct {
	f     spindle.Awaitable
	told  spindle.Hook
	s     *selection
	index int
}

func (c *doneCase) enter(context.Context) { mustBeIdle(c.s != nil) }

func (c *doneCase) try() (bool, error) { return c.f.Done(), nil }

func (c *doneCase) join(s *selection, index int) {
	c.s, c.index = s, index
	c.told = c.f.Then(c.fire)
}

func (c *doneCase) fire() {
	s := c.s
	s.choose(c.index)
	s.waker.Wake(nil)
}

func (c *doneCase) leave() {
	c.s = nil
	c.told.Cancel()
}

func (c *doneCase) finish(error) { c.s = nil }

// After is the case that d has passed since Select was called.
func After(d time.Duration) Case { return &afterCase{d: d} }

type afterCase struct {
	d     time.Duration
	l     *loop.Loop
	timer loop.Timer
	s     *selection
	index int
}

func (c *afterCase) enter(ctx context.Context) {
	mustBeIdle(c.s != nil)
	c.l = spindle.LoopOf(ctx)
}

func (c *afterCase) try() (bool, error) { return c.d <= 0, nil }

func (c *afterCase) join(s *selection, index int) {
	c.s, c.index = s, index
	c.timer = c.l.CallLater(c.d, c.fire)
}

func (c *afterCase) fire() {
	s := c.s
	s.choose(c.index)
	s.waker.Wake(nil)
}

func (c *afterCase) leave() {
	c.s = nil
	c.timer.Cancel()
}

func (c *afterCase) finish(error) { c.s = nil }

func mustBeIdle(busy bool) {
	if busy {
		panic("cosync: Select with a case that is in use")
	}
}
