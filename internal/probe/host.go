package loopcore

import (
	"sync/atomic"
	"time"
)

// Host is a program that steps a loop with RunOnce and runs callbacks of its own between
// two steps, such as an event loop of Python. To an inspector they are one loop. Any
// goroutine may call its method.
type Host interface {
	// HostState returns what the host is doing.
	HostState() HostState
}

// HostState is what a host is doing.
type HostState struct {
	Idle    bool          // it does not step the loop at present
	Waiting bool          // in a step, for the kernel
	For     time.Duration // how long its current callback has run
	Task    string        // of a callback that blocks the loop, if that is known; so are At and Stack
	At      string        // the innermost line of Stack
	Stack   string
}

// host is the host of a loop.
type host struct{ h atomic.Pointer[Host] }

// SetHost sets the host. Any goroutine may call it.
func (c *Loop) SetHost(h Host) { c.host.h.Store(&h) }

// Host returns the host, or nil for most loops. Any goroutine may call it.
func (c *Loop) Host() Host {
	if h := c.host.h.Load(); h != nil {
		return *h
	}
	return nil
}
