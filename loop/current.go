package loopcore

import (
	"cmp"
	"slices"
	"sync"
	"weak"

	"github.com/spindleloop/spindle/internal/goid"
)

// Current returns the loop that the caller runs on: in a callback, in a task, or in the
// goroutine that steps the loop, within the step. It returns nil elsewhere. Any goroutine
// may call it. It looks at every open loop of the process, so callers keep the result.
func Current() *Loop {
	g := goid.Current()
	open.mu.Lock()
	defer open.mu.Unlock()
	for ref := range open.loops { // any order: a goroutine runs at most one
		switch c := ref.Value(); {
		case c == nil: // it was dropped without Close
			delete(open.loops, ref)
		case c.owner.Load() == g:
			return c
		}
	}
	return nil
}

// OpenLoops returns the loops of the process that are not closed, oldest first. Any
// goroutine may call it.
func OpenLoops() (all []*Loop) {
	open.mu.Lock()
	defer open.mu.Unlock()
	for ref := range open.loops { // any order: sorted below
		if c := ref.Value(); c != nil {
			all = append(all, c)
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

func (c *Loop) register() {
	open.mu.Lock()
	defer open.mu.Unlock()
	if open.loops == nil {
		open.loops = make(map[weak.Pointer[Loop]]struct{})
	}
	open.loops[weak.Make(c)] = struct{}{}
	open.made++
	c.id = open.made
}

func (c *Loop) unregister() {
	open.mu.Lock()
	defer open.mu.Unlock()
	delete(open.loops, weak.Make(c))
}
