package stream

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Listener accepts connections. It is a net.Listener.
type Listener struct {
	hub     *sock.Registry
	home    *spindle.Nursery
	network string
	addr    kernel.Addr
	closed  atomic.Bool
	file    sock.File // of who has set closed

	// Loop goroutine only.
	listener *sock.Listener
	pending  []int       // accepted, and not yet asked for
	waiting  spindle.Lot // who asks
}

var _ net.Listener = (*Listener)(nil)

// ListenConfig is how to listen, where Listen does not do.
type ListenConfig struct {
	// Backlog is how many connections the system keeps until they are
	// accepted. Zero means 4096.
	Backlog int

	// ReusePort lets several listeners share one address; the system spreads
	// connections over them.
	ReusePort bool
}

// Listen accepts connections on an address of network "tcp", "tcp4", "tcp6" or
// "unix", as net.Listen does. Ctx is a task's; the listener belongs to its run.
func Listen(ctx context.Context, network, address string) (*Listener, error) {
	return ListenConfig{}.Listen(ctx, network, address)
}

// Listen is Listen as configured.
func (lc ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	listen := func(ctx context.Context) (*Listener, error) { return lc.listen(ctx, network, address) }
	if spindle.Current(ctx) != nil {
		return listen(ctx)
	}
	return inTask(spindle.LoopOf(ctx), spindle.Background(ctx), "Listen of a goroutine", listen)
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
	st := stationOf(l)
	hub := st.hub
	b := sock.Binding{Backlog: lc.Backlog, ReusePort: lc.ReusePort, V6Only: network == "tcp6"}
	fd, err := hub.Bind(a, b)
	if fallback, ok := t.WithoutIPv6(); ok && (err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL) {
		a = fallback
		fd, err = hub.Bind(a, b)
	}
	if err != nil {
		return nil, sock.Error("listen", network, nil, sock.NetAddr(network, a), err)
	}
	ln := &Listener{hub: hub, home: spindle.Background(ctx), network: network}
	if ln.addr, err = hub.K.LocalAddr(fd); err == nil {
		ln.file = sock.Claim(hub.K, ln.addr)
		ln.listener, err = hub.Listen(fd, ln.accepted, nil)
	}
	if err != nil {
		ln.file.Remove(hub.K)
		hub.K.CloseFD(fd)
		return nil, sock.Error("listen", network, nil, sock.NetAddr(network, a), err)
	}
	st.listeners = append(st.listeners, ln)
	return ln, nil
}

// resolve is the address to bind, looked up if it is a name.
func resolve(ctx context.Context, t sock.Target) (kernel.Addr, error) {
	if a, ok := t.Known(true); ok {
		return a, nil
	}
	lookup, stop := context.WithCancel(context.Background())
	defer stop()
	k := spindle.LoopOf(ctx).Kernel()
	addrs, err := spindle.Abandon(ctx, func() ([]kernel.Addr, error) { return t.Lookup(lookup, k.Resolver) })
	if err != nil {
		return kernel.Addr{}, err
	}
	for _, a := range addrs {
		if a.Family() == kernel.IPv4 { // as net has it
			return a, nil
		}
	}
	return addrs[0], nil
}

// mostPending is how many connections are accepted ahead.
const mostPending = 64

func (ln *Listener) accepted(fd int) {
	ln.pending = append(ln.pending, fd)
	if len(ln.pending) >= mostPending {
		ln.listener.Pause()
	}
	ln.waiting.Wake(1)
}

// Accept waits for a connection.
func (ln *Listener) Accept() (net.Conn, error) {
	c, err := ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept without the interface around.
func (ln *Listener) AcceptConn() (*Conn, error) {
	if ctx := ln.home.Here(); ctx != nil {
		return ln.acceptIn(ctx)
	}
	c, err := inTask(ln.hub.L, ln.home, "Listener.Accept of a goroutine", ln.acceptIn)
	return c, ln.fault("accept", err)
}

func (ln *Listener) acceptIn(ctx context.Context) (*Conn, error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	for {
		fd, err := ln.next(ctx)
		if err != nil {
			return nil, ln.fault("accept", err)
		}
		c, err := ln.conn(fd)
		if err == nil {
			return c, nil
		}
		// The descriptor could not be watched; the next may.
	}
}

// next is the next accepted descriptor.
func (ln *Listener) next(ctx context.Context) (int, error) {
	for len(ln.pending) == 0 {
		if ln.closed.Load() {
			return -1, net.ErrClosed
		}
		if err := ln.waiting.Wait(ctx, "Listener.Accept"); err != nil {
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

func (ln *Listener) conn(fd int) (*Conn, error) {
	unix := ln.addr.Family() == kernel.Unix
	if !unix {
		ln.hub.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := newConn(ln.home, ln.hub, fd, sock.KindOf(ln.addr.Family()))
	if err == nil {
		c.unix = unix
	}
	return c, err
}

func (ln *Listener) fault(op string, err error) error {
	var canceled *spindle.Canceled
	if err == nil || errors.As(err, &canceled) {
		return err
	}
	return sock.Error(op, ln.network, nil, ln.Addr(), err)
}

// Addr is the address the listener is bound to.
func (ln *Listener) Addr() net.Addr { return sock.NetAddr(ln.network, ln.addr) }

// Close stops to accept; who waits in Accept fails with net.ErrClosed. The path of
// a Unix socket is removed, unless another socket has taken its place. It does not
// wait.
func (ln *Listener) Close() error {
	if ln.closed.Swap(true) {
		return ln.fault("close", net.ErrClosed)
	}
	ln.unlink()
	soon(ln.hub.L, ln.end)
	return nil
}

// unlink is called once, by whoever has closed it.
func (ln *Listener) unlink() { ln.file.Remove(ln.hub.K) }

// end is Close on the loop.
func (ln *Listener) end() {
	st := stationOf(ln.hub.L)
	st.listeners = slices.DeleteFunc(st.listeners, func(o *Listener) bool { return o == ln })
	ln.listener.Close()
	for _, fd := range ln.pending {
		ln.hub.K.CloseFD(fd)
	}
	ln.pending = nil
	ln.waiting.Wake(1 << 30)
}

// Loop is the loop that the listener is on.
func (ln *Listener) Loop() *loop.Loop { return ln.hub.L }
