package onloop

import (
	"context"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Parker is where a task, or a goroutine that is none, waits until another goroutine wakes it.
// The zero Parker is ready for use. One wait follows another:
//
//	if err := p.Prepare(ctx, refused); err != nil {
//		return err // cancelled before it began
//	}
//	… // arrange for p.Wake to be called, once
//	return p.Park(ctx, "something", abort)
//
// Prepare, Park and Pass are for the caller that waits. Wake may be called from any goroutine;
// what was arranged guards the Parker until then, usually by a mutex. If Park does not return,
// because its task is made to exit, the Parker must not be used again.
type Parker struct {
	// The task's; nil and zero for a goroutine. The loop is also that of the Waker, but a goroutine
	// on another processor would wait for the memory of the coroutine, which its loop writes.
	l     *loop.Loop
	waker coro.Waker

	// For goroutines that do not run the loop. They are made when they are needed, and kept for later waits.
	signal chan struct{} // wakes the goroutine that waits; holds one signal
	post   func()        // wakes the task, on its loop
}

// Prepare begins a wait of the caller, which must follow: by Park, or by Pass if there is nothing
// to wait for. It fails if ctx has ended. A goroutine that runs a loop can wait only in a task
// that passes the task's context: otherwise it would block the loop, and Prepare panics with
// refused.
func (p *Parker) Prepare(ctx context.Context, refused string) (err error) {
	if c := coro.Calling(ctx); c != nil {
		if p.waker, err = c.NewWaker(ctx); err == nil {
			p.l = p.waker.Loop()
		}
		return err
	}
	if loop.Internal().Current() != nil {
		panic(refused)
	}
	p.Release()
	if p.signal == nil {
		p.signal = make(chan struct{}, 1)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Loop returns the loop of the task that waits, or nil if a goroutine does.
func (p *Parker) Loop() *loop.Loop { return p.l }

// Park waits for Wake. If ctx ends first, it calls abort, which undoes what was arranged and
// returns true; then Park fails with the cancellation. Abort returns false if Wake was called or
// will be, and Park waits for it: a result that comes together with a cancellation is not lost.
// What names the wait in the task tree.
func (p *Parker) Park(ctx context.Context, what string, abort coro.Aborter) error {
	if p.l != nil {
		if c := p.waker.Coro(); ctx != c.Context() {
			c.BindNext()
		}
		sw, err := p.waker.Leave(ctx, what, abort)
		for sw != nil {
			sw()
			sw, err = p.waker.Back()
		}
		return err
	}
	done := ctx.Done()
	if done == nil {
		<-p.signal
		return nil
	}
	select {
	case <-p.signal:
	case <-done:
		if abort.Abort() {
			return context.Cause(ctx)
		}
		<-p.signal
	}
	return nil
}

// Pass takes the place of Park where the wait is over already. Wake must not be called for this
// wait.
func (p *Parker) Pass() {
	if p.l != nil {
		p.waker.Pass()
	}
}

// Wake ends the wait. It reports false if the task that waited is gone with its loop.
func (p *Parker) Wake() bool {
	switch {
	case p.l == nil:
		p.signal <- struct{}{} // does not block: a wait has one signal
		return true
	case p.l.Owns():
		return p.waker.Wake(nil)
	}
	if p.post == nil {
		p.post = func() { p.waker.Wake(nil) }
	}
	return p.l.Internal().Post(atclose.Run, p.post) == nil
}

// Release drops the references to a task after its wait.
func (p *Parker) Release() { p.l, p.waker = nil, coro.Waker{} }
