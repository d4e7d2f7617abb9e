package cosync

import (
	"context"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// Case is one of the operations that Select waits for. Recv, Send, Done and After make
// cases. A case can be used again, but not by two calls of Select at the same time.
type Case interface {
	// check panics if the case belongs to another loop than ctx, or is in use.
	check(ctx context.Context)
	// try performs the operation if it can complete at once.
	try() (done bool, err error)
	// join registers the case: it calls s.choose(index) when its operation completes.
	join(s *selection, index int)
	// leave undoes join.
	leave()
	// finish is called for the chosen case, with the result of its operation.
	finish(err error)
}

// Select waits until one of the cases can complete, performs it, and returns its index.
// The other cases have no effect. The error is that of the case: io.EOF, ErrBroken or
// ErrClosed of its channel. If ctx is cancelled, no case has any effect, and the index
// is -1.
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
// If several cases can complete when Select is called, it performs the first of them: the
// choice is the same in every run, and urgent cases can be put first. Otherwise it
// performs the case that can complete first. After(0) as the last case has the effect of
// default in Go's select.
func Select(ctx context.Context, cases ...Case) (int, error) {
	if len(cases) == 0 || slices.Contains(cases, nil) {
		panic("cosync: Select without cases, or with a nil Case")
	}
	if err := spindle.Checkpoint(ctx); err != nil {
		return -1, err
	}
	for i, c := range cases {
		c.check(ctx)
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

// selection is a waiting call of Select. Loop goroutine only.
type selection struct {
	cases  []Case
	waker  spindle.Waker
	chosen int // index of the chosen case; -1 before
}

// Abort cancels all cases.
func (s *selection) Abort() bool {
	if s.chosen >= 0 {
		return false
	}
	for _, c := range s.cases {
		c.leave()
	}
	return true
}

// choose chooses a case. The other cases leave their queues at once, so that every waiter
// in a queue can be served. The caller must then wake the task.
func (s *selection) choose(index int) {
	s.chosen = index
	for i, c := range s.cases {
		if i != index {
			c.leave()
		}
	}
}

// Recv returns the case that receives a value and stores it in *into.
func Recv[T any](r *Receiver[T], into *T) Case {
	if r == nil || into == nil {
		panic("cosync: Recv from a nil Receiver or into nil")
	}
	return &recvCase[T]{r: r, into: into}
}

type recvCase[T any] struct {
	r    *Receiver[T]
	into *T
	w    waiter[T]
}

func (c *recvCase[T]) check(ctx context.Context) {
	c.r.c.checkContext(ctx, "Channel")
	mustBeIdle(c.w.queue != nil)
}

func (c *recvCase[T]) try() (bool, error) {
	v, done, err := c.r.try()
	if done && err == nil {
		*c.into = v
	}
	return done, err
}

func (c *recvCase[T]) join(s *selection, index int) {
	c.w = waiter[T]{waker: s.waker, selection: s, index: index, endpoint: &c.r.endpoint}
	c.r.c.receiving.push(&c.w)
}

func (c *recvCase[T]) leave() { c.w.leave() }

func (c *recvCase[T]) finish(err error) {
	if err == nil {
		*c.into = c.w.value
	}
	c.w = waiter[T]{}
}

// Send returns the case that sends v.
func Send[T any](s *Sender[T], v T) Case {
	if s == nil {
		panic("cosync: Send to a nil Sender")
	}
	return &sendCase[T]{s: s, v: v}
}

type sendCase[T any] struct {
	s *Sender[T]
	v T
	w waiter[T]
}

func (c *sendCase[T]) check(ctx context.Context) {
	c.s.c.checkContext(ctx, "Channel")
	mustBeIdle(c.w.queue != nil)
}

func (c *sendCase[T]) try() (bool, error) { return c.s.try(c.v) }

func (c *sendCase[T]) join(s *selection, index int) {
	c.w = waiter[T]{value: c.v, waker: s.waker, selection: s, index: index, endpoint: &c.s.endpoint}
	c.s.c.sending.push(&c.w)
}

func (c *sendCase[T]) leave()       { c.w.leave() }
func (c *sendCase[T]) finish(error) {}

// Done returns the case that waits until f is done. The result or error is in f.
func Done(f spindle.Awaitable) Case {
	if f == nil {
		panic("cosync: Done of a nil Awaitable")
	}
	return &doneCase{f: f}
}

type doneCase struct {
	f     spindle.Awaitable
	stop  func() bool
	s     *selection
	index int
}

func (c *doneCase) check(context.Context) { mustBeIdle(c.s != nil) }

func (c *doneCase) try() (bool, error) { return c.f.Done(), nil }

func (c *doneCase) join(s *selection, index int) {
	c.s, c.index = s, index
	c.stop = c.f.Then(c.fire)
}

func (c *doneCase) fire() {
	s := c.s
	s.choose(c.index)
	s.waker.Wake(nil)
}

func (c *doneCase) leave() {
	c.s = nil
	c.stop()
}

func (c *doneCase) finish(error) { c.s = nil }

// After returns the case that waits until d has passed since the call of Select.
func After(d time.Duration) Case { return &afterCase{d: d} }

type afterCase struct {
	d     time.Duration
	l     *loop.Loop
	timer loop.Timer
	s     *selection
	index int
}

func (c *afterCase) check(ctx context.Context) {
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
		panic("cosync: Select with a Case that is already in use")
	}
}
