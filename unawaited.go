package spindle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"

	"github.com/spindleloop/spindle/loop"
)

// unawaited is the failure of a task that Spawn started, from the task's end until its
// future's error is read. Loop goroutine only. It does not refer to the future, so that
// this can be collected.
type unawaited struct {
	task    string
	spawned uintptr // where Spawn was called
	err     error
	cleanup runtime.Cleanup // of the future; the zero one does nothing
}

// failed takes note of the failure of the future's task. A cancellation is none.
func (f *Future[T]) failed(err error, spawned uintptr) {
	if onlyCanceled(err) {
		return
	}
	u := &unawaited{task: f.task.Name(), spawned: spawned, err: err}
	r := f.scope.run
	r.note(u)
	f.failure = u
	if r.l.Kernel().Real() { // else the collector would have a hand in a simulated run
		u.cleanup = runtime.AddCleanup(f, r.collected, u)
	}
}

// read is called when the future's error is.
func (f *Future[T]) read() {
	if u := f.failure; u != nil {
		f.failure = nil
		f.scope.run.forget(u)
	}
}

// note adds u to the failures that nothing has read yet.
func (r *run) note(u *unawaited) {
	if r.unawaited == nil {
		r.unawaited = map[*unawaited]uint64{}
	}
	r.failures++
	r.unawaited[u] = r.failures
}

// collected is called, on a goroutine of the runtime, when the future of u was
// collected: nothing will read the failure any more.
func (r *run) collected(u *unawaited) {
	_ = r.l.PostWith(loop.DropAtClose, func() { // the end of the run reports it otherwise
		if _, ok := r.unawaited[u]; ok {
			r.report(u)
		}
	})
}

// reportAll reports, at the end of the run, every failure that nothing has read, in
// the order in which the tasks failed.
func (r *run) reportAll() {
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
	r.log().Error("spindle: a spawned task failed, and its future was never awaited",
		"task", u.task, "spawned", fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line), "error", u.err)
}

// onlyCanceled reports whether every leaf of err is a cancellation.
func onlyCanceled(err error) bool {
	switch e := err.(type) {
	case *Canceled:
		return true
	case *PanicError:
		return false
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if !onlyCanceled(err) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return onlyCanceled(e.Unwrap())
	}
	return err == context.Canceled
}
