package relay

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
)

// parker is where one goroutine or task waits. Wake may be called from any goroutine, once
// for each wait.
type parker struct {
	l      *loop.Loop    // the task's; nil for a goroutine
	waker  spindle.Waker // the task's
	signal chan struct{} // the goroutine's; holds one signal
}

// prepare makes p ready for a wait of the caller. Block must follow. It fails if ctx is
// cancelled.
func (p *parker) prepare(ctx context.Context, what string) (err error) {
	_, own := ctx.(*ownGoroutine)
	if own || spindle.Current(ctx) == nil {
		if !own && loop.Internal().Current() != nil {
			panic("relay: " + what + " would block the loop: in a task, pass the task's context")
		}
		p.l = nil
		if p.signal == nil {
			p.signal = make(chan struct{}, 1)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	p.l = spindle.LoopOf(ctx)
	p.waker, err = spindle.NewWaker(ctx)
	return err
}

// ownGoroutine is a context that never ends, of a goroutine that this package has started.
// It needs no check whether the goroutine may block, and has a node for its waits.
type ownGoroutine struct {
	context.Context
	node node
}

// block waits for wake. If ctx ends first, it calls abort, which reports false if wake was
// called or will be.
func (p *parker) block(ctx context.Context, what string, abort spindle.Aborter) error {
	if p.l != nil {
		return p.waker.Park(ctx, what, abort)
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

// pass takes the place of block where the wait is over already.
func (p *parker) pass() {
	if p.l != nil {
		p.waker.Pass()
	}
}

// wake ends the wait.
func (p *parker) wake() {
	switch {
	case p.l == nil:
		p.signal <- struct{}{}
	case p.l.Owns():
		p.waker.Wake(nil)
	default:
		waker := p.waker                                                 // p may be used again before the loop runs this
		_ = p.l.Internal().Post(atclose.Run, func() { waker.Wake(nil) }) // a closed loop has no tasks
	}
}
