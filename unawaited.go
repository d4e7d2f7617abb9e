package spindle

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"

	"github.com/spindleloop/spindle/internal/atclose"
)

// unawaited is the failure of a task that Spawn started, from the task's end until code
// reads the error of its future. Loop goroutine only. It does not refer to the future, so
// that the future can be collected.
type unawaited struct {
	task    string
	spawned uintptr // where Spawn was called
	err     error
	cleanup runtime.Cleanup // of the future; the zero one does nothing
}

// failed records the failure of the future's task. A cancellation is not a failure.
func (f *Future[T]) failed(err error, spawned uintptr) {
	if isCancellation(err) {
		return
	}
	u := &unawaited{task: f.task.Name(), spawned: spawned, err: err}
	r := f.scope.run
	r.addUnawaited(u)
	f.failure = u
	if r.l.Internal().Kernel().Real() { // a simulated run must not depend on the collector
		u.cleanup = runtime.AddCleanup(f, r.collected, u)
	}
}

// read is called when code reads the future's error.
func (f *Future[T]) read() {
	if u := f.failure; u != nil {
		f.failure = nil
		f.scope.run.forget(u)
	}
}

// addUnawaited adds u to the failures that no code has read.
func (r *run) addUnawaited(u *unawaited) {
	if r.unawaited == nil {
		r.unawaited = map[*unawaited]uint64{}
	}
	r.failures++
	r.unawaited[u] = r.failures
}

// collected is called on a goroutine of the runtime when the future of u was collected:
// no code can read the failure any more.
func (r *run) collected(u *unawaited) {
	_ = r.l.Internal().Post(atclose.Drop, func() { // a run that has ended has reported it
		if _, ok := r.unawaited[u]; ok {
			r.report(u)
		}
	})
}

// reportUnawaited reports, at the end of the run, every failure that no code has read, in
// the order in which the tasks failed.
func (r *run) reportUnawaited() {
	for _, u := range slices.SortedFunc(maps.Keys(r.unawaited), func(a, b *unawaited) int {
		return cmp.Compare(r.unawaited[a], r.unawaited[b])
	}) {
		r.report(u)
	}
}

func (r *run) forget(u *unawaited) {
	delete(r.unawaited, u)
	u.cleanup.Stop()
}

func (r *run) report(u *unawaited) {
	r.forget(u)
	frame, _ := runtime.CallersFrames([]uintptr{u.spawned}).Next()
	r.o.log().Error("spindle: a spawned task failed, and its future was never awaited",
		"task", u.task, "spawned", fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line), "error", u.err)
}
