package simkernel

import (
	"fmt"
	"runtime/debug"

	"github.com/spindleloop/spindle/internal/goid"
)

// Attend records functions of the loop that uses the process: foreign reports whether the
// calling goroutine may not use the loop, and owner returns the goroutine that runs it.
func (p *Process) Attend(foreign func() bool, owner func() uintptr) {
	p.foreign = foreign
	p.owner.Store(&owner)
}

// Foreign is called by a goroutine other than the loop's that has posted to the loop. The
// driver and the running program of the world may do so. Other goroutines may not.
func (p *Process) Foreign() {
	if p.w.driver.Load() == goid.Current() {
		return
	}
	c := p.w.current.Load()
	if c == nil { // a sibling of a process that drives the world itself
		c = p.leader
	}
	if c != nil && c != p && (c.foreign == nil || !c.foreign()) {
		return
	}
	p.w.report(&StrayError{Host: p.host.name, Stack: debug.Stack()})
}

func (w *World) report(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stray == nil {
		w.stray = err
	}
	w.notified.Store(true)
}

// StrayError is an ErrStray with the goroutine's stack.
type StrayError struct {
	Host  string // "" if it is not known
	Stack []byte // of the goroutine; its end shows where it was started
}

func (e *StrayError) Error() string {
	on := ""
	if e.Host != "" {
		on = " on host " + e.Host
	}
	return fmt.Sprintf("%v%s:\n%s", ErrStray, on, e.Stack)
}

// Unwrap returns ErrStray.
func (e *StrayError) Unwrap() error { return ErrStray }
