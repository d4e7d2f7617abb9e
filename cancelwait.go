package spindle

import (
	"context"
	"runtime"
	"time"
)

// check begins a wait: it fails if the wait is cancelled before it begins.
func (t *Task) check(ctx context.Context, scope *Scope) error {
	if t.mustExit {
		runtime.Goexit() // its deferred calls run
	}
	t.co.CheckThread()
	by := t.scope.canceledBy
	if by == nil && scope != t.scope {
		by = scope.canceledBy
	}
	var err error
	switch {
	case by != nil:
		err = by.canceled
	case ctx != context.Context(scope) && ctx.Err() != nil && !scope.endsWith(ctx):
		err = context.Cause(ctx)
	default:
		t.ignored = 0
		t.co.SetCheck(false)
		if ctx != context.Context(t.scope) {
			t.co.BindNext()
		}
		return nil
	}
	t.delayCancelled()
	return err
}

// cancelWait ends the task's wait with err if the wait can still be aborted. It reports
// whether it did. The next wait begins with a check in any case.
func (t *Task) cancelWait(err error) bool {
	if t.co == nil {
		return false
	}
	t.co.SetCheck(true)
	return t.co.Abort(err)
}

// mustCheck makes the next wait of the task begin with a check.
func (t *Task) mustCheck() {
	if t.co != nil {
		t.co.SetCheck(true)
	}
}

// cancelledBy ends the task's wait because of a cancelled scope.
func (t *Task) cancelledBy(by *Scope) {
	why := by.canceled
	if t.cancelWait(why) && why.late {
		why.Scope.interrupted = why.Scope.interrupted.add(t)
	}
}

// Bind makes the task's wait end also with a context that is not the task's own scope:
// another scope, or one that the standard library derived from a scope. A scope around
// the task's reaches it anyway.
func (b *body) Bind(ctx context.Context) {
	t := (*Task)(b)
	if ctx == context.Context(t.scope) {
		return
	}
	scope := scopeOf(ctx)
	own := scope.endsWith(ctx)
	if own && scope.reaches(t.scope) {
		return
	}
	wait := t.co.Waker()
	end := func() {
		switch by := scope.canceledBy; {
		case !wait.Waiting():
		case by != nil:
			t.cancelledBy(by)
		default:
			t.cancelWait(context.Cause(ctx))
		}
	}
	if own {
		bound := scope.bound.add(end)
		t.co.AfterWait(func() { bound.stop() })
		return
	}
	l := scope.s.l
	stop := l.Internal().AfterFunc(ctx, end) // a run that has ended does not need it
	t.co.AfterWait(func() { stop() })
}

// afterUncancelled follows a wait that cancellation does not end. Code that continues
// after a cancellation is treated as after any other wait.
func (t *Task) afterUncancelled(outer *Scope) {
	if t.mustExit {
		runtime.Goexit()
	}
	if outer.canceledBy != nil {
		t.delayCancelled()
	}
}

// delayCancelled lets other tasks run before a cancelled wait returns. Code that ignores
// cancellation waits again at once. It is slowed down, so that it does not use all of a
// core, and the first time it is logged.
func (t *Task) delayCancelled() {
	t.co.SetCheck(true) // which resets ignored
	if t.ignored < 255 {
		t.ignored++
	}
	if t.ignored <= freeCancelled {
		t.co.Yield()
		return
	}
	if !t.slowed {
		t.slowed = true
		t.nursery.scope.run.o.log().Warn("spindle: a task ignores its cancellation; from now on its cancelled waits take longer",
			"task", t.Name(), "function", t.place(), "cancelled waits", t.ignored, "each takes", cancelledDelay)
	}
	w := t.waits()
	w.timer = t.scope.s.l.CallLater(cancelledDelay, w.alarm())
	t.wait("cancelled wait", unabortable{})
}

const (
	freeCancelled  = 16                    // cancelled waits in a row that are not slowed down: for cleaning up
	cancelledDelay = 10 * time.Millisecond // of each further one
)

// unabortable is for waits that cancellation does not end.
type unabortable struct{}

func (unabortable) Abort() bool { return false }
