package loop

import (
	"cmp"
	"slices"
	"sync"
	"weak"

	"github.com/spindleloop/spindle/internal/goid"
)

// process is what Spindle's own packages ask about all loops of the process.
type process struct{}

// Internal is for Spindle's own packages, like Loop.Internal.
func Internal() process { return process{} }

// Current returns the loop that the caller runs on: in a callback, in a task, or in the
// goroutine that steps the loop, within the step. It returns nil elsewhere. Any goroutine
// may call it. It looks at every open loop of the process, so callers keep the result.
func (process) Current() *Loop {
	g := goid.Current()
	open.mu.Lock()
	defer open.mu.Unlock()
	for ref := range open.loops { // any order: a goroutine runs at most one
		switch l := ref.Value(); {
		case l == nil: // it was dropped without Close
			delete(open.loops, ref)
		case l.owner.Load() == g:
			return l
		}
	}
	return nil
}

// Open returns the loops of the process that are not closed, oldest first. Any goroutine
// may call it.
func (process) Open() (all []*Loop) {
	open.mu.Lock()
	defer open.mu.Unlock()
	for ref := range open.loops { // any order: sorted below
		if l := ref.Value(); l != nil {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *Loop) int { return cmp.Compare(a.id, b.id) })
	return all
}

// open is the set of loops that are not closed. A loop that is dropped can still be
// collected.
var open struct {
	mu    sync.Mutex
	loops map[weak.Pointer[Loop]]struct{} // guarded by mu
	made  uint64                          // loops so far; guarded by mu
}

func (l *Loop) register() {
	open.mu.Lock()
	defer open.mu.Unlock()
	if open.loops == nil {
		open.loops = make(map[weak.Pointer[Loop]]struct{})
	}
	open.loops[weak.Make(l)] = struct{}{}
	open.made++
	l.id = open.made
}

func (l *Loop) unregister() {
	open.mu.Lock()
	defer open.mu.Unlock()
	delete(open.loops, weak.Make(l))
}
