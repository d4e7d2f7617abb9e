package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Options configure a server.
type Options struct {
	// Protocol makes the protocol of a new connection, or returns one that
	// serves all. It is required. It is called on the connection's loop, as OnError
	// is, so with a group several goroutines may call it at once.
	Protocol func() Protocol

	// Backlog is the number of connections that the system queues until they
	// are accepted. Zero means 4096.
	Backlog int

	// MaxConns limits the open connections on each loop; further ones wait in the
	// backlog. Zero means no limit.
	MaxConns int

	// ReusePort lets several servers listen on one address; the system
	// spreads connections over them.
	ReusePort bool

	// Spread selects how ListenGroup distributes connections over the loops.
	Spread Spread

	// Sock is a socket that already listens: a *net.TCPListener, a *net.UnixListener, or an
	// inherited *os.File. Network and address must be empty then. The descriptor is
	// duplicated, as by Wrap; both accept while both are open. Close leaves the socket to
	// its other owners, and does not remove the path of a Unix socket. In a group the first
	// loop accepts, and stops when it runs next after Close; ReusePort means RoundRobin.
	Sock syscall.Conn

	// Delay lets the system collect small writes to TCP peers (Nagle's
	// algorithm). By default they are sent at once.
	Delay bool

	// TLS secures the connections. Nil means plain connections. All connections
	// share the configuration, which must not be modified. Its callbacks, such
	// as GetCertificate, run on workers of the loop and may block.
	TLS *tls.Config

	// HandshakeTimeout limits a TLS handshake. Zero means 10 seconds, negative
	// means no limit.
	HandshakeTimeout time.Duration

	// RefusePlain is called on the loop with the first bytes of a connection if
	// they are not TLS. Its result is sent unencrypted before the connection is
	// closed. If RefusePlain or its result is nil, nothing is sent.
	RefusePlain func(first []byte) (answer []byte)

	// OnError is called when connections cannot be accepted because the system
	// is out of descriptors or memory, once for each such period. Accepting
	// resumes by itself. It is also called for each handshake that fails, with a
	// *net.OpError: its Op is "handshake", or "local error" or "remote error"
	// for a TLS alert.
	OnError func(error)
}

// Server accepts connections on one address, for one loop or for the loops of a group.
// Listen and ListenGroup make one. Its methods may be called from any goroutine. While
// the loop of Listen does not run, that is the one that prepares the loop.
type Server struct {
	o         Options
	network   string
	addr      kernel.Addr
	shards    []*shard     // one for each loop
	group     bool         // made for a group; other goroutines may start its loops
	nextShard int          // accepting loop only: where the next search starts
	open      atomic.Int64 // connections, including those being handed over
	phase     atomic.Int32 // a serverPhase
	emptying  atomic.Int32 // shards that still accept what is queued, in serverDrains

	mu      sync.Mutex
	drained []func() // callbacks of Drain; guarded by mu
}

// serverPhase is whether a server accepts.
//
//	accepts ──Drain──▶ drains ──Close──▶ closed
//	   └────────────────Close──────────────┘
type serverPhase = int32

const (
	serverAccepts serverPhase = iota
	serverDrains              // each shard accepts what is queued, and then closes its listener
	serverClosed              // no connection is accepted
)

// Listen accepts connections on an address of network "tcp", "tcp4", "tcp6" or "unix".
// It corresponds to asyncio's create_server. The host must be an address, not a name,
// because looking up a name would block. Port 0 selects a free port. Errors are
// *net.OpErrors.
func Listen(l *loop.Loop, network, address string, o Options) (*Server, error) {
	if o.Protocol == nil {
		panic("transport: Listen without a Protocol")
	}
	o.checkSock("Listen", network, address)
	s := &Server{o: o, network: network}
	return s.start("Listen", []*loop.Loop{l}, func(sh *shard) error { return sh.listen(network, address) })
}

// checkSock panics if an address is given as well as Sock.
func (o *Options) checkSock(op, network, address string) {
	if o.Sock != nil && network+address != "" {
		panic("transport: " + op + " with Options.Sock and an address; leave network and address empty")
	}
}

// start makes the shards and calls listen for each one that accepts: the first, or
// with ReusePort all of them. op is the name of the exported function.
func (s *Server) start(op string, loops []*loop.Loop, listen func(*shard) error) (*Server, error) {
	for i, l := range loops {
		sh := &shard{s: s, st: loopStateOf(op, l)}
		if i == 0 || s.o.Spread == ReusePort {
			if err := listen(sh); err != nil {
				for _, sh := range s.shards {
					sh.stop()
				}
				return nil, err
			}
		}
		s.shards = append(s.shards, sh)
	}
	for _, sh := range s.shards {
		sh.st.servers = append(sh.st.servers, sh)
	}
	return s, nil
}

// bind makes a listening socket.
func (st *loopState) bind(network, address string, b sock.Binding) (int, error) {
	t, err := sock.ParseTarget(network, address)
	if err == nil && t.Type != kernel.Stream {
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return -1, sock.Error("listen", network, nil, nil, err)
	}
	a, ok := t.Known(true)
	if !ok {
		return -1, sock.Error("listen", network, nil, nil, &net.AddrError{Err: "not an address (a name must be looked up first)", Addr: address})
	}
	b.V6Only = network == "tcp6"
	fd, err := st.sockets.Bind(a, b)
	if fallback, ok := t.WithoutIPv6(); ok && (err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL) {
		a = fallback
		fd, err = st.sockets.Bind(a, b)
	}
	return fd, sock.Error("listen", network, nil, sock.NetAddr(network, a), err)
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return sock.NetAddr(s.network, s.addr) }

// Conns returns the number of open connections.
func (s *Server) Conns() int { return int(s.open.Load()) }

// Close stops accepting; connections stay open. New connections are refused from now on,
// even if the loop does not run. The path of a Unix socket is removed, unless another
// socket has taken its place. The socket Options.Sock is left to its other owners; a
// loop that is not running stops accepting when it runs next. Closing again does nothing.
func (s *Server) Close() error {
	if s.phase.Swap(serverClosed) == serverClosed {
		return nil
	}
	return s.eachListener((*shard).closeListener)
}

func (s *Server) eachListener(fn func(*shard) error) error {
	var errs []error
	for _, sh := range s.shards {
		if sh.ln != nil {
			errs = append(errs, fn(sh))
		}
	}
	return errors.Join(errs...)
}

// Drain accepts the connections that the system has queued and then closes the server, like
// Close, on each loop when it runs. At MaxConns queued connections are refused. It calls
// done, on one of its loops, once the last connection is lost. EachConn ends the
// connections.
func (s *Server) Drain(done func()) error {
	if done == nil {
		panic("transport: Drain with a nil function")
	}
	s.mu.Lock()
	s.drained = append(s.drained, done)
	s.mu.Unlock()
	var err error
	s.emptying.Add(1) // until every shard has been counted
	if s.phase.CompareAndSwap(serverAccepts, serverDrains) {
		err = s.eachListener((*shard).emptyQueue)
	}
	s.emptying.Add(-1)
	for _, done := range s.takeDrained() {
		if s.shards[0].st.sockets.L.Internal().Post(atclose.Run, done) != nil {
			done() // the loop is closed
		}
	}
	return err
}

// takeDrained removes and returns the callbacks of Drain if no connection is left.
func (s *Server) takeDrained() []func() {
	if s.phase.Load() == serverAccepts || s.emptying.Load() != 0 || s.open.Load() != 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	drained := s.drained
	s.drained = nil
	return drained
}

// EachConn calls fn for every connection of the server, on the connection's loop: before
// EachConn returns if that is the caller's, and later otherwise. Calls on different
// loops run concurrently. A graceful shutdown sends what was written, and some time after ends the
// connections that remain:
//
//	server.Drain(done)
//	server.EachConn(func(c *transport.Conn) { c.Close() })
//	l.CallLater(grace, func() { server.EachConn((*transport.Conn).Abort) })
func (s *Server) EachConn(fn func(*Conn)) {
	for _, sh := range s.shards {
		switch {
		case sh.conns.Load() == 0:
		case sh.onLoop():
			sh.each(fn)
		default:
			_ = sh.st.sockets.L.Internal().Post(atclose.Drop, func() { sh.each(fn) }) // a closed loop has no connections
		}
	}
}

// LeaveServer removes the connection from the server that accepted it. Drain no longer
// waits for it, EachConn skips it, and it does not count
// towards MaxConns. Use it for a connection that outlives the server.
func (c *Conn) LeaveServer() {
	c.checkLoop("LeaveServer")
	if sh := c.shard; sh != nil {
		c.shard = nil
		sh.connLost()
	}
}
