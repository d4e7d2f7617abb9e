package sock

import (
	"cmp"
	"slices"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// Listener accepts connections. When the system is out of descriptors or memory it
// pauses for a while instead of spinning. While it is paused, connections wait in the
// system's backlog.
type Listener struct {
	reg      *Registry
	fd       int
	accept   func(fd int)
	failed   func(error)
	retry    loop.Timer
	phase    listenerPhase
	watching bool // false while accepting is paused, closed or backs off
	failing  bool // accepting fails, and failed was called
}

// listenerPhase is what the owner of a Listener wants of it.
type listenerPhase uint8

const (
	accepting listenerPhase = iota
	pausedAccepting
	closedListener
)

// Listen starts accepting on fd, a listening socket. It calls accept with every
// connection, and failed, if not nil, once for each period in which accepting fails.
// If Listen fails, the caller still owns fd.
func (r *Registry) Listen(fd int, accept func(fd int), failed func(error)) (*Listener, error) {
	ln := &Listener{reg: r, fd: fd, accept: accept, failed: failed}
	if err := ln.startWatching(); err != nil {
		return nil, err
	}
	r.listeners = append(r.listeners, ln)
	return ln, nil
}

// DefaultBacklog is how many connections wait to be accepted if nothing else is set.
const DefaultBacklog = 4096

// Binding configures a listening socket.
type Binding struct {
	Backlog   int // 0 means DefaultBacklog
	ReusePort bool
	V6Only    bool
}

// Bind makes a socket that listens on a.
func (r *Registry) Bind(a kernel.Addr, b Binding) (fd int, err error) {
	k := r.K
	if fd, err = k.Socket(a.Family(), kernel.Stream); err != nil {
		return -1, err
	}
	b.Backlog = cmp.Or(b.Backlog, DefaultBacklog)
	bound := false
	if err = runSteps(
		func() error { return r.configure(fd, a, b) },
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

func (r *Registry) configure(fd int, a kernel.Addr, b Binding) error {
	if a.Family() == kernel.Unix {
		return nil
	}
	options := []struct {
		option kernel.Option
		on     bool
	}{
		{kernel.ReuseAddr, true},
		{kernel.ReusePort, b.ReusePort},
	}
	for _, o := range options {
		if !o.on {
			continue
		}
		if err := r.K.SetOption(fd, o.option, 1); err != nil {
			return err
		}
	}
	return r.setV6Only(fd, a.Family(), b.V6Only)
}

// setV6Only makes a socket of IPv6 take only IPv6, or IPv4 too. The default is a setting of
// the system, so both are set, as package net does. Some systems have no sockets that take
// both: there the one for IPv6 is what remains.
func (r *Registry) setV6Only(fd int, f kernel.Family, only bool) error {
	if f != kernel.IPv6 {
		return nil
	}
	if only {
		return r.K.SetOption(fd, kernel.IPv6Only, 1)
	}
	_ = r.K.SetOption(fd, kernel.IPv6Only, 0)
	return nil
}

// runSteps runs the steps in order until one fails.
func runSteps(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// FD returns the descriptor, or -1 once it is closed.
func (ln *Listener) FD() int {
	if ln.phase == closedListener {
		return -1
	}
	return ln.fd
}

// acceptBatch is how many connections are accepted before other callbacks run.
const acceptBatch = 64

// acceptRetryDelay is how long a listener waits after accepting failed.
const acceptRetryDelay = 50 * time.Millisecond

func (ln *Listener) ready() {
	for range acceptBatch {
		if ln.phase != accepting {
			return
		}
		fd, err := ln.reg.K.Accept(ln.fd)
		switch err {
		case nil:
			ln.accept(fd)
		case syscall.ECONNABORTED: // the peer left before it was accepted
		case syscall.EAGAIN:
			ln.failing = false
			return
		case syscall.EINVAL: // the socket no longer listens, and never will again
			ln.stopWatching()
			if ln.failed != nil {
				ln.failed(err)
			}
			return
		default:
			ln.backOff(err)
			return
		}
	}
	ln.failing = false
}

// backOff stops watching for acceptRetryDelay. The socket stays readable, so a watch
// would spin. failed is called last, because it may close the listener or panic.
func (ln *Listener) backOff(err error) {
	ln.stopWatching()
	ln.retry = ln.reg.L.CallLater(acceptRetryDelay, ln.rewatch)
	if ln.failing {
		return
	}
	ln.failing = true
	if ln.failed != nil {
		ln.failed(err)
	}
}

func (ln *Listener) rewatch() {
	if err := ln.startWatching(); err != nil {
		ln.backOff(err)
	}
}

func (ln *Listener) startWatching() error {
	if ln.watching {
		return nil
	}
	err := ln.reg.L.AddReader(ln.fd, ln.ready)
	ln.watching = err == nil
	return err
}

func (ln *Listener) stopWatching() {
	if ln.watching {
		ln.watching = false
		ln.reg.L.RemoveReader(ln.fd)
	}
}

// AcceptQueued accepts the connections that are in the system's backlog now, unless the
// listener is paused. It is for a listener that is about to be closed, which refuses them.
// At most limit are accepted, so that clients that keep connecting do not occupy the loop.
func (ln *Listener) AcceptQueued(limit int) {
	for range limit {
		if ln.phase != accepting {
			return
		}
		fd, err := ln.reg.K.Accept(ln.fd)
		switch err {
		case nil:
			ln.accept(fd)
		case syscall.ECONNABORTED:
		default:
			return
		}
	}
}

// Pause stops accepting until Resume.
func (ln *Listener) Pause() {
	if ln.phase == accepting {
		ln.stop(pausedAccepting)
	}
}

func (ln *Listener) stop(p listenerPhase) {
	ln.phase = p
	ln.stopWatching()
	ln.retry.Cancel()
}

// Resume starts accepting again.
func (ln *Listener) Resume() {
	if ln.phase != pausedAccepting {
		return
	}
	ln.phase = accepting
	ln.rewatch()
}

// Close closes the listener. Connections in the backlog are refused. Further calls do
// nothing.
func (ln *Listener) Close() error {
	if ln.phase == closedListener {
		return nil
	}
	ln.stop(closedListener)
	ln.reg.listeners = slices.DeleteFunc(ln.reg.listeners, func(o *Listener) bool { return o == ln })
	return ln.reg.K.CloseFD(ln.fd)
}
