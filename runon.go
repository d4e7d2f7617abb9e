package spindle

import (
	"context"

	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
)

// RunOn starts fn as a task on a loop that other code runs, so that callback code can
// continue as a task. Call it from a callback of the loop, or before the loop runs. When fn
// and all tasks that it started have ended, the loop calls done with the error that Run
// would return; done may be nil. If ctx ends, all tasks are cancelled. If the loop is
// stopped before that, the tasks stay where they wait. Closing the loop cancels them, and
// done is called with loop.ErrClosed.
func RunOn(ctx context.Context, l *loop.Loop, fn func(context.Context) error, done func(error)) {
	if l.Internal().Foreign() {
		panic("spindle: RunOn called from a goroutine that is not the loop's; Post a function that calls it")
	}
	run := newRun(ctx, l, Options{})
	unfollow := run.follow(ctx)
	run.root.done = func() {
		unfollow()
		run.endSoon(ctx, done)
	}
	run.start(fn)
}

// NurseryOn opens a nursery on a loop that other code runs, for callback code that starts
// tasks from time to time. Call it from a callback of the loop, or before the loop runs.
//
// Calling end cancels the tasks. When the last one has ended, the loop calls done with the
// error that Run would return; a panic is an error too. Call end once, on the loop. The
// tasks look values up in ctx; they are not cancelled when ctx ends.
func NurseryOn(ctx context.Context, l *loop.Loop) (n *Nursery, end func(done func(error))) {
	if l.Internal().Foreign() {
		panic("spindle: NurseryOn called from a goroutine that is not the loop's; Post a function that calls it")
	}
	ctx = context.WithoutCancel(ctx)
	run := newRun(ctx, l, Options{})
	run.service = true
	run.root.running = 1
	return run.root, func(done func(error)) {
		run.s.only("the end function of NurseryOn")
		run.root.done = func() {
			run.root.fault = nil // it is among the errors too
			run.endSoon(ctx, done)
		}
		run.cancel(context.Canceled)
		if run.root.running--; run.root.running == 0 {
			run.root.closed = true
			run.root.done()
		}
	}
}

// endSoon ends the run in a coming turn. The last task is still on its coroutine, which
// has to end too.
func (r *run) endSoon(ctx context.Context, done func(error)) {
	r.l.Internal().CallSoon(loopcore.RunAtClose, func() {
		r.s.leave(r)
		err := r.result(ctx)
		if done != nil {
			done(err)
		}
	})
}
