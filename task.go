package spindle

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// Task is a running piece of straight-line code: a function that pauses where
// it waits, and goes on when the loop resumes it.
type Task struct {
	fn      func(context.Context) error
	code    uintptr  // of the function that the user knows it by; 0 for fn's
	nursery *Nursery // whose child it is
	scope   *Scope   // the innermost one it is in
	own     *Scope   // the one that is the task's; nil for most
	co      *coro    // what it runs on, and its wait; nil before it has begun
	name    string
	id      uint64 // in the order of starting
	lane    loop.Priority
	state   taskState
	budget  int8  // immediate completions left until it lets others run
	ignored uint8 // cancellations in a row that it did not heed
	doomed  bool  // its next wait ends it: it outlived every cancellation
	slowed  bool  // it was logged that it ignores its cancellation
	known   bool  // to somebody who may keep it: it cannot be used for another
	inScope node  // among the tasks of scope
}

// wait is what a task waits for.
type wait struct {
	what    string
	since   time.Duration
	aborter Aborter
	outcome error      // what the wait will return
	seq     uint32     // names the wait, so that a late wake finds it gone
	fd      int32      // whose readiness it waits for
	timer   loop.Timer // that ends it
	inLot   node       // in a Lot
}

type taskState uint8

const (
	fresh   taskState = iota // not begun
	ready                    // in a lane of the loop
	running                  // its code, or what it resumed, is executing
	waiting
	finished
)

// eachBudget is how many waits may complete at once before a task must let the
// others run.
const eachBudget = 64

// enter makes sc the innermost scope of the task.
func (t *Task) enter(sc *Scope) {
	t.inScope.remove()
	t.scope = sc
	sc.tasks.push(&t.inScope, t)
}

// Name is the name that the task was given, or else that of its function.
func (t *Task) Name() string {
	if t.name != "" {
		return t.name
	}
	if f := t.function(); f != nil {
		return path.Base(f.Name())
	}
	return "task"
}

// place is where the task's function is.
func (t *Task) place() string {
	if from, ok := t.nursery.scope.run.traced[t]; ok {
		return from.function
	}
	f := t.function()
	if f == nil {
		return ""
	}
	file, line := f.FileLine(f.Entry())
	return fmt.Sprintf("%s:%d", path.Base(file), line)
}

func (t *Task) function() *runtime.Func {
	if t.code != 0 {
		return runtime.FuncForPC(t.code)
	}
	return runtime.FuncForPC(codeOf(t.fn))
}

// codeOf is where a function's code begins.
func codeOf(fn any) uintptr { return reflect.ValueOf(fn).Pointer() }

// caller is the task that is calling, and the scope of its ctx. It panics if
// the caller is no task of the loop that ctx belongs to.
func caller(ctx context.Context, op string) (*Task, *Scope) {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(foreign(op))
	}
	// What the scheduler knows may be looked at only on its loop.
	if !scope.s.l.Owns() {
		panic("spindle: " + asked(op) + " called from a goroutine that is not the running task" +
			" (another goroutine, or a generator of iter.Pull inside the task)")
	}
	t := scope.s.running
	if t == nil {
		panic("spindle: " + asked(op) + " called from a callback, which cannot wait; start a task")
	}
	return t, scope
}

// Current is the task that is calling; nil if the caller is not a task of the
// loop that ctx belongs to. It may be called from any goroutine.
func Current(ctx context.Context) *Task {
	scope := scopeOf(ctx)
	if scope == nil || !scope.s.l.Owns() {
		return nil
	}
	t := scope.s.running
	if t != nil {
		t.known = true
	}
	return t
}

// check is the beginning of every wait: it fails if the wait is cancelled
// before it begins.
func (t *Task) check(ctx context.Context, scope *Scope) error {
	if t.doomed {
		t.vanish()
	}
	t.co.mustLeaveThread()
	blamed := t.scope.blame
	if blamed == nil && scope != t.scope {
		blamed = scope.blame
	}
	var err error
	switch {
	case blamed != nil:
		err = blamed.canceled
	case ctx != context.Context(scope) && ctx.Err() != nil && !scope.endsWith(ctx):
		err = context.Cause(ctx)
	default:
		t.ignored = 0
		return nil
	}
	t.breathe()
	return err
}

// wake ends the task's wait with err.
func (t *Task) wake(err error) {
	t.co.settle(err)
	t.co.s.l.ResumeSoon(t.lane, t.co)
}

// cancelWait ends the task's wait with err if it can still be given up, and reports
// whether it could.
func (t *Task) cancelWait(err error) bool {
	if t.state != waiting || !t.co.aborter.Abort() {
		return false
	}
	t.wake(err)
	return true
}

// cutBy ends the task's wait because of a cancelled scope.
func (t *Task) cutBy(blamed *Scope) {
	why := blamed.canceled
	if t.cancelWait(why) && why.late {
		why.Scope.cut = why.Scope.cut.add(t)
	}
}

// bind makes the wait end also with a context that is not the task's own scope:
// another scope, or one that the standard library derived from a scope. A scope
// around the task's reaches it anyway.
func (t *Task) bind(ctx context.Context) {
	scope := scopeOf(ctx)
	own := scope.endsWith(ctx)
	if own && scope.reaches(t.scope) {
		return
	}
	co, seq := t.co, t.co.seq
	give := func() {
		if co.task == t && co.seq == seq {
			if blamed := scope.blame; blamed != nil {
				t.cutBy(blamed)
			} else {
				t.cancelWait(context.Cause(ctx))
			}
		}
	}
	if own {
		h := scope.bound.add(give)
		co.seldom().unbind = func() { h.Cancel() }
		return
	}
	stop := co.s.l.Kernel().AfterFunc(ctx, func() { co.s.l.PostWith(loop.DropAtClose, give) }) // a run that has ended needs it no more
	co.seldom().unbind = func() { stop() }
}

// heed is the end of a wait that cancellation does not end. Code that goes on
// all the same is treated as in any other wait.
func (t *Task) heed(outer *Scope) {
	if t.doomed {
		t.vanish()
	}
	if outer.blame != nil {
		t.breathe()
	}
}

// breathe lets the others run before a cancelled wait returns. Code that ignores
// cancellation waits again at once: it is slowed down, so that it does not burn a
// core, and the first time it is logged.
func (t *Task) breathe() {
	if t.ignored < 255 {
		t.ignored++
	}
	if t.ignored <= heeded {
		t.queue()
		t.rest()
		return
	}
	if !t.slowed {
		t.slowed = true
		t.nursery.scope.run.log().Warn("spindle: a task ignores its cancellation; from now on its cancelled waits take longer",
			"task", t.Name(), "function", t.place(), "cancelled waits", t.ignored, "each takes", heedless)
	}
	t.co.timer = t.co.s.l.CallLater(heedless, t.co.alarm())
	t.wait(t.scope, "cancelled wait", unabortable{})
}

const (
	heeded   = 16                    // cancelled waits that cleaning up may take
	heedless = 10 * time.Millisecond // what each further one costs
)

// unabortable is for waits that cancellation does not end.
type unabortable struct{}

func (unabortable) Abort() bool { return false }

// wait is Park for a wait that nobody but us knows of.
func (t *Task) wait(ctx context.Context, what string, ab Aborter) error {
	return t.co.suspend(t.co.seq+1, ctx, what, ab)
}

// queue has the running task go on when everything has run that is ready. It must
// rest next.
func (t *Task) queue() {
	t.budget = eachBudget
	t.state = ready
	t.co.s.l.ResumeSoon(t.lane, t.co)
}

// rest gives up control until the turn of a queued task has come.
func (t *Task) rest() {
	for sw, _ := t.co.back(); sw != nil; sw, _ = t.co.back() {
		sw()
	}
}
