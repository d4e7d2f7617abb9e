package simkernel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// ErrBlocked reports that a program blocked its goroutine instead of waiting on its loop.
var ErrBlocked = errors.New("sim: a program blocks its loop")

// BlockedError is an ErrBlocked with the line that blocks.
type BlockedError struct {
	Host  string // "" if no host was running
	State string // what the goroutine waits for, as the runtime names it: "sleep"
	Line  string // file:line (function); "" if it is not known
	Stack []byte // of the goroutine while it was blocked

	// Passed is the time that has passed meanwhile, if the block was only noticed
	// afterwards. State, Line and Stack are then not known.
	Passed time.Duration
}

func (e *BlockedError) Error() string {
	var b strings.Builder
	b.WriteString(ErrBlocked.Error())
	if e.Host != "" {
		fmt.Fprintf(&b, " on host %s", e.Host)
	}
	if e.Line != "" {
		fmt.Fprintf(&b, ", at %s", e.Line)
	}
	if e.Passed > 0 {
		fmt.Fprintf(&b, ": it slept, or waited for a timer, for %v; ", e.Passed)
	} else {
		fmt.Fprintf(&b, ": its goroutine is in state %q, and nothing else can run; ", e.State)
	}
	if bytes.Contains(e.Stack, []byte("simkernel.(*Process).runInterrupts(")) {
		b.WriteString("offloaded work runs on the loop in a simulation and may only compute (World.WorkTime sets how long it takes)")
	} else {
		b.WriteString("wait with spindle.Sleep, cosync or a stream, and not with time.Sleep, channels or package sync")
	}
	if len(e.Stack) > 0 {
		fmt.Fprintf(&b, "\n%s", e.Stack)
	}
	return b.String()
}

// Unwrap returns ErrBlocked.
func (e *BlockedError) Unwrap() error { return ErrBlocked }

// Beat returns a number that changes with every Wait of a process. It may be called from
// any goroutine.
func (w *World) Beat() uint64 { return w.beat.Load() }

// Blocked returns an error for the running program if its goroutine is blocked, and nil
// otherwise. A caller uses it when the program makes no progress. It may be called from
// any goroutine.
func (w *World) Blocked() *BlockedError {
	passes := w.passes.Load()
	host, stack := w.runner()
	state := stateOf(stack)
	// A driver that lets time pass in its bubble is blocked too, on a busy machine for a
	// long time.
	if !blocks(state, stack) || passes%2 != 0 || passes != w.passes.Load() {
		return nil
	}
	return &BlockedError{Host: host, State: state, Line: goid.Line(stack), Stack: stack}
}

// Runner returns the host of the running program and the stack of its goroutine. It may be
// called from any goroutine.
func (w *World) Runner() (host string, stack []byte) { return w.runner() }

func (w *World) runner() (host string, stack []byte) {
	g := w.driver.Load()
	p := w.current.Load()
	if p == nil && g == 0 {
		p = w.alone.Load()
	}
	if p != nil {
		host = p.host.name
		if own := p.g.Load(); own != 0 {
			g = own
		}
		if owner := p.owner.Load(); owner != nil {
			g = cmp.Or((*owner)(), g)
		}
	}
	if g == 0 {
		return host, nil
	}
	return host, goid.StackOf(goid.NumberOf(g))
}

// Report makes the run fail with err. It may be called from any goroutine.
func (w *World) Report(err error) { w.report(err) }

// IsReported reports whether the world of p has an error of Report that Drive has not
// returned yet. It may be called from any goroutine. It is for tests.
func (p *Process) IsReported() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.stray != nil
}

// Reported returns an error of Report that Drive has not returned yet, or an error if time
// has passed in the bubble while a program ran. It is for the end of a run.
func (w *World) Reported() error {
	_, err := w.takeNotices()
	return cmp.Or(err, w.slept())
}

// stateOf returns the state of a goroutine, which is in the first line of its stack:
// "goroutine 9 [sleep (durable), 2 minutes, synctest bubble 8]:".
func stateOf(stack []byte) string {
	_, state, _ := bytes.Cut(stack, []byte("["))
	state, _, _ = bytes.Cut(state, []byte("]"))
	state, _, _ = bytes.Cut(state, []byte(","))
	return strings.TrimSuffix(string(state), " (durable)")
}

// blocks reports whether a goroutine in the given state waits for another goroutine, for
// the system or for time. In other states it runs, is runnable, or waits for the runtime.
// The state "semacquire" is also that of the runtime's own semaphores, for example in a
// goroutine that starts a garbage collection; then the innermost frame differs. A goroutine
// in loop.contain has passed its loop on to another one, which on a busy machine may not
// have begun yet.
func blocks(state string, stack []byte) bool {
	_, frames, _ := bytes.Cut(stack, []byte("\n"))
	innermost, _, _ := bytes.Cut(frames, []byte("\n"))
	if bytes.Contains(innermost, []byte("/loop.contain")) {
		return false
	}
	if bytes.Contains(stack, []byte("/simguest.")) {
		return false // its program runs in another process
	}
	switch state {
	case "sleep", "IO wait", "syscall":
		return true
	case "semacquire":
		return bytes.Contains(innermost, []byte(".runtime_Semacquire"))
	}
	for _, prefix := range []string{"chan ", "select", "sync."} {
		if strings.HasPrefix(state, prefix) {
			return true
		}
	}
	return false
}
