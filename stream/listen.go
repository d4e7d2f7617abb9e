package stream

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// Listener accepts connections. It implements net.Listener.
type Listener struct {
	registry *sock.Registry
	nursery  *spindle.Nursery
	network  string
	addr     kernel.Addr
	closed   atomic.Bool
	file     sock.File // used only by the goroutine that sets closed

	// Loop goroutine only.
	listener  *sock.Listener
	pending   []int       // accepted, waiting for a call of Accept
	acceptors spindle.Lot // tasks that wait in Accept
}

var _ net.Listener = (*Listener)(nil)

// ListenConfig configures how to listen. Listen uses the zero ListenConfig.
type ListenConfig struct {
	// Backlog is the number of connections that the system queues until they are
	// accepted. Zero means 4096.
	Backlog int

	// ReusePort lets several listeners share one address; the system distributes
	// connections among them.
	ReusePort bool
}

// Listen listens on an address of network "tcp", "tcp4", "tcp6" or "unix", as
// net.Listen does. The context comes from a task, and the listener belongs to that
// task's run.
func Listen(ctx context.Context, network, address string) (*Listener, error) {
	return ListenConfig{}.Listen(ctx, network, address)
}

// Listen listens as the function Listen does, configured by lc.
func (lc ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	listen := func(ctx context.Context) (*Listener, error) { return lc.listen(ctx, network, address) }
	if spindle.Current(ctx) != nil {
		return listen(ctx)
	}
	return runInTask(spindle.LoopOf(ctx), spindle.RootNursery(ctx), "Listen", listen)
}

func (lc ListenConfig) listen(ctx context.Context, network, address string) (*Listener, error) {
	l := spindle.LoopOf(ctx)
	t, err := sock.ParseTarget(network, address)
	if err == nil && t.Type != kernel.Stream {
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return nil, sock.Error("listen", network, nil, nil, err)
	}
	a, err := resolve(ctx, t)
	if err != nil {
		return nil, sock.Error("listen", network, nil, nil, err)
	}
	st := loopStateOf(l)
	registry := st.registry
	b := sock.Binding{Backlog: lc.Backlog, ReusePort: lc.ReusePort, V6Only: network == "tcp6"}
	fd, err := registry.Bind(a, b)
	if fallback, ok := t.WithoutIPv6(); ok && (err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL) {
		a = fallback
		fd, err = registry.Bind(a, b)
	}
	if err != nil {
		return nil, sock.Error("listen", network, nil, sock.NetAddr(network, a), err)
	}
	ln := &Listener{registry: registry, nursery: spindle.RootNursery(ctx), network: network}
	if ln.addr, err = registry.K.LocalAddr(fd); err == nil {
		ln.file = sock.Claim(registry.K, ln.addr)
		ln.listener, err = registry.Listen(fd, ln.onAccept, nil)
	}
	if err != nil {
		ln.file.Remove(registry.K)
		registry.K.CloseFD(fd)
		return nil, sock.Error("listen", network, nil, sock.NetAddr(network, a), err)
	}
	st.listeners = append(st.listeners, ln)
	return ln, nil
}

// resolve returns the address of t to bind to. It looks up a host name.
func resolve(ctx context.Context, t sock.Target) (kernel.Addr, error) {
	if a, ok := t.Known(true); ok {
		return a, nil
	}
	lookup, stop := context.WithCancel(context.Background())
	defer stop()
	k := spindle.LoopOf(ctx).Internal().Kernel()
	addrs, err := spindle.Abandon(ctx, func() ([]kernel.Addr, error) { return t.Lookup(lookup, k.Resolver) })
	if err != nil {
		return kernel.Addr{}, err
	}
	for _, a := range addrs {
		if a.Family() == kernel.IPv4 { // net prefers IPv4 here, too
			return a, nil
		}
	}
	return addrs[0], nil
}

// maxPending is how many connections are accepted before Accept is called for them.
const maxPending = 64

func (ln *Listener) onAccept(fd int) {
	ln.pending = append(ln.pending, fd)
	if len(ln.pending) >= maxPending {
		ln.listener.Pause()
	}
	ln.acceptors.Wake(1)
}

// Accept waits for a connection and returns it.
func (ln *Listener) Accept() (net.Conn, error) {
	c, err := ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept with a concrete result type.
func (ln *Listener) AcceptConn() (*Conn, error) {
	if ctx := coro.Here(ln.registry.L); ctx != nil {
		return ln.accept(ctx)
	}
	c, err := runInTask(ln.registry.L, ln.nursery, "Listener.Accept", ln.accept)
	return c, ln.netError("accept", err)
}

func (ln *Listener) accept(ctx context.Context) (*Conn, error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	for {
		fd, err := ln.nextFD(ctx)
		if err != nil {
			return nil, ln.netError("accept", err)
		}
		c, err := ln.newConn(fd)
		if err == nil {
			return c, nil
		}
		// The descriptor could not be watched. That need not hold for the next one.
	}
}

// nextFD waits for an accepted descriptor and returns it.
func (ln *Listener) nextFD(ctx context.Context) (int, error) {
	for len(ln.pending) == 0 {
		if ln.closed.Load() {
			return -1, net.ErrClosed
		}
		if err := ln.acceptors.Wait(ctx, "Listener.Accept"); err != nil {
			return -1, err
		}
	}
	fd := ln.pending[0]
	ln.pending = ln.pending[1:]
	if len(ln.pending) == 0 {
		ln.pending = nil
		ln.listener.Resume()
	}
	return fd, nil
}

// drain closes the listener, and returns the descriptors of the connections that were queued,
// which Close would reset. There are at most about as many as fit into a backlog, so that
// clients that keep connecting do not occupy the loop. Loop goroutine only.
func (ln *Listener) drain() (queued []int) {
	for !ln.closed.Load() && len(queued) < sock.DefaultBacklog {
		ln.listener.Resume()
		ln.listener.AcceptQueued(maxPending)
		if len(ln.pending) == 0 {
			break
		}
		queued = append(queued, ln.pending...)
		ln.pending = nil
	}
	ln.Close()
	return queued
}

func (ln *Listener) newConn(fd int) (*Conn, error) {
	unix := ln.addr.Family() == kernel.Unix
	if !unix {
		ln.registry.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := newConn(ln.nursery, ln.registry, fd, sock.KindOf(ln.addr.Family()))
	if err == nil {
		c.unix = unix
	}
	return c, err
}

func (ln *Listener) netError(op string, err error) error {
	var canceled *spindle.Canceled
	if err == nil || errors.As(err, &canceled) {
		return err
	}
	return sock.Error(op, ln.network, nil, ln.Addr(), err)
}

// Addr returns the address the listener is bound to.
func (ln *Listener) Addr() net.Addr { return sock.NetAddr(ln.network, ln.addr) }

// Close stops accepting. Pending calls of Accept fail with net.ErrClosed. Close
// removes the path of a Unix socket, unless another socket has replaced it. It does
// not wait.
func (ln *Listener) Close() error {
	if ln.closed.Swap(true) {
		return ln.netError("close", net.ErrClosed)
	}
	ln.unlink()
	runOnLoop(ln.registry.L, ln.closeOnLoop)
	return nil
}

// unlink removes the path of a Unix socket. The goroutine that has set closed calls
// it, once.
func (ln *Listener) unlink() { ln.file.Remove(ln.registry.K) }

// closeOnLoop closes the listener and the connections that are still pending. Loop
// goroutine only.
func (ln *Listener) closeOnLoop() {
	st := loopStateOf(ln.registry.L)
	st.listeners = slices.DeleteFunc(st.listeners, func(o *Listener) bool { return o == ln })
	ln.listener.Close()
	ln.closeAll(ln.pending)
	ln.pending = nil
	ln.acceptors.Wake(1 << 30)
}

// closeAll closes connections that were accepted, and have no Conn.
func (ln *Listener) closeAll(fds []int) {
	for _, fd := range fds {
		ln.registry.K.CloseFD(fd)
	}
}
