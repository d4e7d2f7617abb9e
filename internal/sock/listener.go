package sock

import (
	"slices"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// Listener accepts connections. While it is out of descriptors or memory it looks
// away for a while instead of spinning; while it is paused, connections wait in
// the system's backlog.
type Listener struct {
	hub    *Hub
	fd     int
	accept func(fd int)
	failed func(error)
	rest   loop.Timer
	spell  bool // out of descriptors or memory, and told of it
	paused bool // also once it is closed
	watch  bool
	closed bool
}

// Listen begins to accept on fd, which is bound and listens. Accept is told of
// every connection. Failed, which may be nil, is told once of each spell in which
// nothing can be accepted. If Listen fails, fd is still the caller's.
func (h *Hub) Listen(fd int, accept func(fd int), failed func(error)) (*Listener, error) {
	ln := &Listener{hub: h, fd: fd, accept: accept, failed: failed}
	if err := ln.look(); err != nil {
		return nil, err
	}
	h.listeners = append(h.listeners, ln)
	return ln, nil
}

// Binding is how a socket is bound.
type Binding struct {
	Backlog   int // 0 means 4096
	ReusePort bool
	V6Only    bool
}

// Bind makes a socket that listens on a.
func (h *Hub) Bind(a kernel.Addr, b Binding) (fd int, err error) {
	k := h.K
	if fd, err = k.Socket(a.Family(), kernel.Stream); err != nil {
		return -1, err
	}
	if b.Backlog == 0 {
		b.Backlog = 4096
	}
	bound := false
	if err = first(
		func() error { return h.reuse(fd, a, b) },
		func() error { return k.Bind(fd, a) },
		func() error {
			bound = true
			return k.Listen(fd, b.Backlog)
		},
	); err != nil {
		if bound {
			file := Claim(k, a)
			file.Remove(k)
		}
		k.CloseFD(fd)
		return -1, err
	}
	return fd, nil
}

func (h *Hub) reuse(fd int, a kernel.Addr, b Binding) error {
	if a.Family() == kernel.Unix {
		return nil
	}
	options := []struct {
		option kernel.Option
		on     bool
	}{
		{kernel.ReuseAddr, true},
		{kernel.ReusePort, b.ReusePort},
		{kernel.IPv6Only, b.V6Only && a.Family() == kernel.IPv6},
	}
	for _, o := range options {
		if !o.on {
			continue
		}
		if err := h.K.SetOption(fd, o.option, 1); err != nil {
			return err
		}
	}
	return nil
}

// first does one step after the other until one fails.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// FD is the descriptor, -1 once it is closed.
func (ln *Listener) FD() int {
	if ln.closed {
		return -1
	}
	return ln.fd
}

// acceptBatch is how many connections are accepted before others have their turn.
const acceptBatch = 64

// acceptRest is how long a listener waits when it is out of descriptors.
const acceptRest = 50 * time.Millisecond

func (ln *Listener) ready() {
	for range acceptBatch {
		if ln.paused {
			return
		}
		fd, err := ln.hub.K.Accept(ln.fd)
		switch err {
		case nil:
			ln.accept(fd)
		case syscall.ECONNABORTED: // gone before we came
		case syscall.EAGAIN:
			ln.spell = false
			return
		case syscall.EINVAL: // it listens no more, and never will
			ln.unwatch()
			if ln.failed != nil {
				ln.failed(err)
			}
			return
		default:
			ln.lookAway(err)
			return
		}
	}
	ln.spell = false
}

// lookAway stops to listen for a while. The listener stays ready: to go on would
// be to spin. Failed comes last, as it may close the listener, or panic.
func (ln *Listener) lookAway(err error) {
	ln.unwatch()
	ln.rest = ln.hub.L.CallLater(acceptRest, ln.lookAgain)
	if ln.spell {
		return
	}
	ln.spell = true
	if ln.failed != nil {
		ln.failed(err)
	}
}

func (ln *Listener) lookAgain() {
	if err := ln.look(); err != nil {
		ln.lookAway(err)
	}
}

func (ln *Listener) look() error {
	if ln.watch {
		return nil
	}
	err := ln.hub.L.AddReader(ln.fd, ln.ready)
	ln.watch = err == nil
	return err
}

func (ln *Listener) unwatch() {
	if ln.watch {
		ln.watch = false
		ln.hub.L.RemoveReader(ln.fd)
	}
}

// Pause stops to accept until Resume.
func (ln *Listener) Pause() {
	ln.paused = true
	ln.unwatch()
	ln.rest.Cancel()
}

// Resume accepts again.
func (ln *Listener) Resume() {
	if !ln.paused || ln.closed {
		return
	}
	ln.paused = false
	ln.lookAgain()
}

// Close ends the listener, once. Whoever waits in the backlog is refused.
func (ln *Listener) Close() error {
	if ln.closed {
		return nil
	}
	ln.Pause()
	ln.closed = true
	ln.hub.listeners = slices.DeleteFunc(ln.hub.listeners, func(o *Listener) bool { return o == ln })
	return ln.hub.K.CloseFD(ln.fd)
}
