package loop

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

// process is what Spindle's own packages ask about all loops of the process.
type process struct{}

// Internal is for Spindle's own packages, like Loop.Internal.
func Internal() process { return process{} }

// WithKernel returns o for a loop on another kernel, which the loop closes. Package sim uses it
// to run loops in a simulated world.
func (process) WithKernel(o Options, k *kernel.Kernel) Options {
	o.kernel = k
	return o
}

// Current returns the loop that the caller runs on: in a callback, in a task, or in the
// goroutine that steps the loop, within the step. It returns nil elsewhere. Any goroutine
// may call it. It takes no lock, but looks at every open loop of the process.
func (process) Current() *Loop {
	g := goid.Current()
	for _, ref := range open.list() {
		if l := ref.Value(); l != nil && l.owner.Load() == g {
			return l
		}
	}
	return nil
}

// Open returns the loops of the process that are not closed, oldest first. Any goroutine
// may call it.
func (process) Open() (all []*Loop) {
	for _, ref := range open.list() {
		if l := ref.Value(); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// open has the loops that are not closed.
var open registered

type registered struct {
	loops atomic.Pointer[[]weak.Pointer[Loop]] // oldest first; replaced under mu, and read without a lock

	mu   sync.Mutex
	made uint64 // loops so far; guarded by mu
}

// list returns the loops. One that was dropped without Close may be nil.
func (r *registered) list() []weak.Pointer[Loop] {
	if all := r.loops.Load(); all != nil {
		return *all
	}
	return nil
}

func (l *Loop) register() {
	open.mu.Lock()
	defer open.mu.Unlock()
	open.made++
	l.id = open.made
	all := append(slices.Clone(open.list()), weak.Make(l))
	all = slices.DeleteFunc(all, func(ref weak.Pointer[Loop]) bool { return ref.Value() == nil })
	open.loops.Store(&all)
}

func (l *Loop) unregister() {
	open.mu.Lock()
	defer open.mu.Unlock()
	self := weak.Make(l)
	all := slices.DeleteFunc(slices.Clone(open.list()), func(ref weak.Pointer[Loop]) bool { return ref == self })
	open.loops.Store(&all)
}

// RunAll runs one function for each loop of the group, all at the same time, and returns when
// all have returned.
func (process) RunAll(g *Group, run []func()) { g.runAll(run) }

// KernelFailed reports whether a run ended because the kernel failed, as it then does in each turn.
func (process) KernelFailed(err error) bool { _, ok := err.(*failure); return ok }
