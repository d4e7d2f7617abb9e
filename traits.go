package spindle

import (
	"context"
	"runtime/debug"
	"runtime/pprof"
	"sync"

	"github.com/spindleloop/spindle/internal/goid"
)

// A goroutine has state that code can set and that outlives the code: the labels of
// package pprof, and debug.SetPanicOnFault. A coroutine runs many tasks, so that state must
// be reset before each. Most tasks never set it, so the scheduler first looks whether it
// differs, in the runtime's g: that is two loads.

// traits is what a scheduler knows of such state.
type traits struct {
	run      *run    // of the task that began last; nil if the offsets are unknown
	labels   uintptr // of that task, as its g has them
	labelsAt int     // the offset of the labels in a g
	panicsAt int     // the same of SetPanicOnFault
}

// fit reports whether the goroutine g has the traits that a task of r is to have.
func (tr *traits) fit(g uintptr, r *run) bool {
	return tr.run == r && goid.Word(g, tr.labelsAt) == tr.labels && !goid.Flag(g, tr.panicsAt)
}

// reset gives t, which is about to begin, the labels in the context of its run.
//
//go:noinline
func (tr *traits) reset(t *Task) {
	debug.SetPanicOnFault(false)
	r := t.scope.run
	pprof.SetGoroutineLabels(r.root.scope)
	if tr.labelsAt >= 0 && tr.panicsAt >= 0 {
		tr.run, tr.labels = r, goid.Word(t.co.Goroutine(), tr.labelsAt)
	}
}

func newTraits() traits { return traits{labelsAt: findLabels(), panicsAt: findPanicOnFault()} }

var findLabels = sync.OnceValue(func() int {
	labelled := pprof.WithLabels(context.Background(), pprof.Labels("spindle", "search"))
	return goid.FindWord(func(is func(set bool)) {
		pprof.SetGoroutineLabels(context.Background()) // some may be inherited
		is(false)
		pprof.SetGoroutineLabels(labelled)
		is(true)
		pprof.SetGoroutineLabels(context.Background())
		is(false)
	})
})

var findPanicOnFault = sync.OnceValue(func() int {
	return goid.FindFlag(func(is func(set bool)) {
		is(false)
		debug.SetPanicOnFault(true)
		is(true)
		debug.SetPanicOnFault(false)
		is(false)
	})
})
