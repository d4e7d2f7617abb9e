package spindle

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Task is a running piece of straight-line code: a function that pauses where
// it waits, and goes on when the loop resumes it.
type Task struct {
	fn        func(context.Context) error
	code      uintptr    // of the function that names the task; 0 for fn's
	nursery   *Nursery   // the task is its child
	scope     *Scope     // the innermost one it is in
	own       *Scope     // the task's own; nil for most
	co        *coro.Coro // its coroutine, with its wait; nil before it has begun
	name      string
	id        uint64 // in the order of starting
	ignored   uint8  // cancellations in a row that it has ignored
	mustExit  bool   // its next wait ends it
	slowed    bool   // it was logged that it ignores its cancellation
	known     bool   // other code may keep it: it cannot be used for another task
	uncounted bool   // it is not among the tasks that its nursery's limit counts
	walked    uint16 // the number of the last walk that has visited it
	inScope   node   // among the tasks of scope
	extra     *extra // nil for most
}

// extra is what the waits of few tasks need. It is kept when the task is reused. It is
// small, because many tasks may wait in a Lot.
type extra struct {
	inLot node   // in a Lot
	waits *waits // nil for most
}

// waits is what waits for time, readiness and results need.
type waits struct {
	t           *Task
	awaits      *Task      // the task waits for its result
	read, write func()     // end waits for readiness
	fd          int32      // the task waits for its readiness
	timer       loop.Timer // ends the wait
	wake        func()     // the timer's callback

	leftShield time.Duration // when the task last left a shield in a cancelled run
}

// extras returns the task's extra.
func (t *Task) extras() *extra {
	if t.extra == nil {
		t.extra = &extra{}
	}
	return t.extra
}

// waits returns the task's waits.
func (t *Task) waits() *waits {
	x := t.extras()
	if x.waits == nil {
		x.waits = &waits{t: t}
	}
	return x.waits
}

// alarm returns a callback that wakes the task, made once.
func (w *waits) alarm() func() {
	if w.wake == nil {
		w.wake = func() { w.t.wake(nil) }
	}
	return w.wake
}

func (w *waits) loop() *loop.Loop { return w.t.scope.s.l }

// start starts fn as a task.
func (n *Nursery) start(o *TaskOptions, fn func(context.Context) error) *Task {
	n.s.only("Nursery.Go")
	if n.closed {
		panic("spindle: Nursery.Go on a nursery that has ended")
	}
	if o.Eager {
		n.s.core.CheckBegin()
	}
	n.s.started++
	n.running++
	t := n.s.task()
	t.fn, t.code, t.name = fn, o.code, o.Name
	t.nursery, t.id = n, n.s.started
	t.own, t.scope = o.own, n.scope
	values := o.Values
	if helper, ok := values.(coro.Helper); ok {
		t.uncounted, values = true, helper.Context
	}
	if o.own == nil && values != nil {
		t.own = n.scope.open(values)
	}
	if t.own != nil {
		t.scope = t.own
	}
	t.scope.tasks.push(&t.inScope, t)
	if origins := n.scope.run.origins; origins != nil {
		origins.add(t)
	}
	if tracer := n.scope.run.tracer; tracer != nil && values == nil {
		t.trace(tracer)
	}
	if n.s.record != nil {
		n.s.record.started(t)
	}
	if n.limit != nil && !t.uncounted {
		if n.holds() {
			n.hold(t, o)
			return t
		}
		n.limit.running++
	}
	if o.Eager && n.s.l.Owns() {
		n.s.core.RunNested(n.s.core.Host(o.Priority, (*body)(t)))
	} else {
		n.s.core.Start(o.Priority, (*body)(t))
	}
	return t
}

// body is a Task as its coroutine sees it. Users do not see these methods.
type body Task

// taskOn returns the task of a coroutine, nil if it has none.
func taskOn(c *coro.Coro) *Task {
	b, _ := c.Body().(*body)
	return (*Task)(b)
}

// Name returns the task's name.
func (b *body) Name() string { return (*Task)(b).Name() }

// NewWaker makes the Waker of the task's next wait.
func (*body) NewWaker(ctx context.Context) (coro.Waker, error) {
	w, err := NewWaker(ctx)
	return coro.Waker(w), err
}

// Run runs the task to its end. Its frame is on the stack of every task: keep it small.
func (b *body) Run(c *coro.Coro) {
	t := (*Task)(b)
	t.begin(c)
	returned := false
	defer func() {
		if !returned {
			t.failed(recover())
		}
	}()
	err := t.fn(t.scope)
	c.CheckThread()
	returned = true
	t.returned(err)
}

// begin prepares the task's coroutine.
func (t *Task) begin(c *coro.Coro) {
	t.co = c
	scope, s := t.scope, t.scope.s
	c.SetContext(scope, t.mustExit || scope.canceledBy != nil)
	if tr := &s.traits; !tr.fit(c.Goroutine(), scope.run) {
		tr.reset(t)
	}
	if r := s.record; r != nil {
		r.begin(t)
	}
}

// returned ends a task that has returned err.
func (t *Task) returned(err error) {
	s := t.scope.s
	t.finish(err, nil)
	s.recycle(t)
}

// failed ends a task after its function has panicked with v, or has called runtime.Goexit
// if v is nil.
func (t *Task) failed(v any) {
	t.co.RestoreThread()
	switch {
	case v == nil && t.mustExit:
		t.finish(nil, nil) // it is reported as a straggler
	case v == nil:
		t.finish(nil, asPanic(loop.ErrGoexit))
	default:
		t.finish(nil, asPanic(v))
	}
	t.scope.s.recycle(t)
}

// finish ends a task with the error that its function returned, or with its panic.
func (t *Task) finish(err error, fault *PanicError) {
	if fault != nil {
		err = fault
	}
	t.inScope.remove()
	if r := t.scope.s.record; r != nil {
		r.finished(t, err)
	}
	if origins := t.nursery.scope.run.origins; origins != nil {
		delete(origins, t)
	}
	if t.own != nil {
		err = t.own.absorb(err)
		t.own.close()
	}
	n := t.nursery
	if n.limit != nil && !t.uncounted {
		n.limit.running--
		n.beginHeld()
	}
	switch {
	case err == nil:
	case n.onFailure != nil && !n.cancelled(err):
		n.childFailed(err)
		return
	case fault != nil:
		n.panicked(fault)
	default:
		n.failed(err)
	}
	n.childEnded()
}

// childEnded counts a task that has ended.
func (n *Nursery) childEnded() {
	if n.running--; n.running == 0 {
		n.allEnded()
	}
}

// allEnded is called when the last task has ended.
func (n *Nursery) allEnded() {
	switch {
	case n.joining != nil:
		n.joining.wake(nil)
		n.joining = nil
	case n.done != nil:
		n.closed = true // no task would wait for one more
		n.done()
	}
}

// enter makes sc the innermost scope of the task.
func (t *Task) enter(sc *Scope) {
	t.inScope.remove()
	if w := sc.s.walk; w != nil {
		w.moved(t)
	}
	t.scope = sc
	sc.tasks.push(&t.inScope, t)
	if c := t.co; c != nil {
		c.SetContext(sc, c.NeedsCheck() || sc.canceledBy != nil)
	}
}

// Name returns the name that the task was given, or else that of its function.
func (t *Task) Name() string {
	if t.name != "" {
		return t.name
	}
	if t.own != nil {
		if named, ok := t.own.values.(interface{ TaskName() string }); ok {
			return named.TaskName()
		}
	}
	if f := t.function(); f != nil {
		return functionName(f)
	}
	return "task"
}

// functionName returns a function's name as the source has it, with its package. The
// compiler makes a function of its own for a method value, x.Method, and marks it.
func functionName(f *runtime.Func) string { return strings.TrimSuffix(path.Base(f.Name()), "-fm") }

// place returns where the task's function is.
func (t *Task) place() string {
	if from, ok := t.nursery.scope.run.origins[t]; ok {
		return from.function
	}
	f := t.function()
	if f == nil {
		return ""
	}
	file, line := f.FileLine(f.Entry())
	if file == "<autogenerated>" {
		return functionName(f) // no line is known
	}
	return fmt.Sprintf("%s:%d", path.Base(file), line)
}

func (t *Task) function() *runtime.Func { return runtime.FuncForPC(t.codeOf()) }

// codeOf returns the address of the code of the function that names the task.
func (t *Task) codeOf() uintptr {
	if t.code != 0 {
		return t.code
	}
	return codeOf(t.fn)
}

// codeOf returns the address of the code of fn, a function, or 0 if it is nil. A function
// value points to that address. Package reflect returns it too, but takes so long that it
// was a tenth of a Gather.
func codeOf[F any](fn F) uintptr {
	at := *(**uintptr)(unsafe.Pointer(&fn))
	if at == nil {
		return 0
	}
	return *at
}

// caller returns the task that is calling, and the scope of its ctx. It panics if the
// caller is not a task of the loop that ctx belongs to.
func caller(ctx context.Context, op string) (*Task, *Scope) {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask(op))
	}
	// The scheduler may be used only on its loop.
	if !scope.s.l.Owns() {
		panic("spindle: " + calledName(op) + " called from a goroutine that is not the running task" +
			" (another goroutine, or a generator of iter.Pull inside the task); goroutines use CallOn, Loop.Post or a cosync.Inbox")
	}
	t := scope.s.running()
	if t == nil {
		panic("spindle: " + calledName(op) + " called from a callback, which cannot wait; start a task")
	}
	return t, scope
}

// Current returns the task that is calling. It returns nil if the caller is not a task of
// the loop that ctx belongs to. It may be called from any goroutine.
func Current(ctx context.Context) *Task {
	scope := scopeOf(ctx)
	if scope == nil || !scope.s.l.Owns() {
		return nil
	}
	t := scope.s.running()
	if t != nil {
		t.known = true
	}
	return t
}

// state returns the name of the task's state.
func (t *Task) state() string {
	if t.co == nil {
		return "fresh"
	}
	return stateNames[t.co.State()]
}

var stateNames = [...]string{coro.Ready: "ready", coro.Running: "running", coro.Waiting: "waiting"}

// waiting reports whether the task waits.
func (t *Task) waiting() bool { return t.co != nil && t.co.State() == coro.Waiting }

// wake ends the task's wait with err.
func (t *Task) wake(err error) { t.co.End(err) }

// wait waits until wake is called.
func (t *Task) wait(what string, ab Aborter) {
	Waker(t.co.NextWaker()).Park(t.scope, what, ab)
}
