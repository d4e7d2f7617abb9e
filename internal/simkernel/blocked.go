package simkernel

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spindleloop/spindle/internal/goid"
)

// ErrBlocked says that a program blocked its goroutine in place of waiting on its
// loop.
var ErrBlocked = errors.New("sim: a program blocks its loop")

// BlockedError is an ErrBlocked with the line that blocks.
type BlockedError struct {
	Host  string // "" if no host was running
	State string // what the goroutine waits for, as the runtime names it: "sleep"
	Line  string // file:line (function); "" if it is not known
	Stack []byte // of the goroutine while it was blocked
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
	fmt.Fprintf(&b, ": its goroutine is in state %q, and nothing else can run; ", e.State)
	if bytes.Contains(e.Stack, []byte("simkernel.(*Process).obey(")) {
		b.WriteString("offloaded work runs on the loop in a simulation and may only compute (World.WorkTime sets how long it takes)")
	} else {
		b.WriteString("wait with spindle.Sleep, cosync or a stream, and not with time.Sleep, channels or package sync")
	}
	fmt.Fprintf(&b, "\n%s", e.Stack)
	return b.String()
}

// Unwrap returns ErrBlocked.
func (e *BlockedError) Unwrap() error { return ErrBlocked }

// Beat changes whenever a program asks its kernel. It may be called from any
// goroutine.
func (w *World) Beat() uint64 { return w.beat.Load() }

// Blocked describes the goroutine that runs now, for a caller that has found out
// that it does not go on. It returns nil if that goroutine is not blocked after
// all. It may be called from any goroutine.
func (w *World) Blocked() *BlockedError {
	passes := w.passes.Load()
	host, stack := w.runner()
	state := stateOf(stack)
	// A driver that lets time pass in its bubble waits for that. On a busy machine it
	// waits for long.
	if !blocks(state, stack) || passes%2 != 0 || passes != w.passes.Load() {
		return nil
	}
	return &BlockedError{Host: host, State: state, Line: goid.Line(stack), Stack: stack}
}

// Runner is the host whose program runs now and the stack of its goroutine. It may
// be called from any goroutine.
func (w *World) Runner() (host string, stack []byte) { return w.runner() }

func (w *World) runner() (host string, stack []byte) {
	g := w.driver.Load()
	p := w.current.Load()
	if p == nil && g == 0 {
		p = w.alone.Load()
	}
	if p != nil {
		host = p.host.name
		if owner := p.owner.Load(); owner != nil && (*owner)() > 1 {
			g = (*owner)()
		} else if own := p.g.Load(); own != 0 {
			g = own
		}
	}
	if g == 0 {
		return host, nil
	}
	return host, goid.StackOf(goid.NumberOf(g))
}

// Report has the run fail. It may be called from any goroutine.
func (w *World) Report(err error) { w.report(err) }

// Reported is an error of Report that nothing has heard of yet.
func (w *World) Reported() error {
	_, err := w.heed()
	return err
}

// stateOf is the state of a goroutine, as the first line of its stack tells it:
// "goroutine 9 [sleep (durable), 2 minutes, synctest bubble 8]:".
func stateOf(stack []byte) string {
	_, state, _ := bytes.Cut(stack, []byte("["))
	state, _, _ = bytes.Cut(state, []byte("]"))
	state, _, _ = bytes.Cut(state, []byte(","))
	return strings.TrimSuffix(string(state), " (durable)")
}

// blocks reports whether a goroutine in a state waits for another one, for the
// system or for time. Others run, want to run, or wait for the runtime. The runtime's own
// semaphores have the state of those it lends to packages, but no frame of them: a
// goroutine that starts a garbage collection waits for one.
func blocks(state string, stack []byte) bool {
	switch state {
	case "sleep", "IO wait", "syscall":
		return true
	case "semacquire":
		_, frames, _ := bytes.Cut(stack, []byte("\n"))
		innermost, _, _ := bytes.Cut(frames, []byte("\n"))
		return bytes.Contains(innermost, []byte(".runtime_Semacquire"))
	}
	for _, prefix := range []string{"chan ", "select", "sync."} {
		if strings.HasPrefix(state, prefix) {
			return true
		}
	}
	return false
}
