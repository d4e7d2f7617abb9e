package loop

import (
	"sync"
	"weak"

	"github.com/spindleloop/spindle/internal/goid"
)

// Current returns the loop that the caller runs on: in a callback of it, in a task, or in
// the goroutine that steps it, within the step. It is nil elsewhere. It may be called from
// any goroutine. It looks at every open loop of the process, so keep the result.
func Current() *Loop {
	g := goid.Current()
	open.mu.Lock()
	defer open.mu.Unlock()
	for ref := range open.loops {
		switch l := ref.Value(); {
		case l == nil: // it was dropped without Close
			delete(open.loops, ref)
		case l.owner.Load() == g:
			return l
		}
	}
	return nil
}

// open is all loops that are not closed. A loop that is dropped can still be collected.
var open struct {
	mu    sync.Mutex
	loops map[weak.Pointer[Loop]]struct{} // guarded by mu
}

func (l *Loop) opened() {
	open.mu.Lock()
	defer open.mu.Unlock()
	if open.loops == nil {
		open.loops = make(map[weak.Pointer[Loop]]struct{})
	}
	open.loops[weak.Make(l)] = struct{}{}
}

func (l *Loop) dropped() {
	open.mu.Lock()
	defer open.mu.Unlock()
	delete(open.loops, weak.Make(l))
}
