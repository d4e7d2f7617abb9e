package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Options configure a server.
type Options struct {
	// Protocol makes the protocol of a new connection, or returns one that
	// serves all. It is required.
	Protocol func() Protocol

	// Backlog is the number of connections that the system queues until they
	// are accepted. Zero means 4096.
	Backlog int

	// MaxConns limits the open connections; further ones wait in the backlog.
	// Zero means no limit.
	MaxConns int

	// ReusePort lets several servers listen on one address; the system
	// spreads connections over them.
	ReusePort bool

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

// Server accepts connections on one address. Listen makes one.
type Server struct {
	st         *loopState
	o          Options
	listener   *sock.Listener
	network    string
	addr       kernel.Addr
	file       sock.File
	conns      int      // open connections
	drained    []func() // callbacks of Drain
	onConnLost func()   // called for each connection that is lost; may be nil
	closed     bool
}

// Listen accepts connections on an address of network "tcp", "tcp4", "tcp6" or "unix".
// It corresponds to asyncio's create_server. The host must be an address, not a name,
// because looking up a name would block. Port 0 selects a free port. Errors are
// *net.OpErrors.
func Listen(l *loop.Loop, network, address string, o Options) (*Server, error) {
	if o.Protocol == nil {
		panic("transport: Listen without a Protocol")
	}
	st := loopStateOf("Listen", l)
	fd, err := st.bind(network, address, sock.Binding{Backlog: o.Backlog, ReusePort: o.ReusePort})
	if err != nil {
		return nil, err
	}
	var file sock.File
	if network == "unix" {
		file = sock.Claim(st.sockets.K, kernel.Addr{Path: address})
	}
	s, err := st.serve(fd, network, o)
	if err != nil {
		file.Remove(st.sockets.K)
		return nil, err
	}
	s.file = file
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

func (st *loopState) serve(fd int, network string, o Options) (*Server, error) {
	s := &Server{st: st, o: o, network: network}
	var err error
	if s.addr, err = st.sockets.K.LocalAddr(fd); err == nil {
		s.listener, err = st.sockets.Listen(fd, s.accept, s.failed)
	}
	if err != nil {
		st.sockets.K.CloseFD(fd)
		return nil, sock.Error("listen", network, nil, nil, err)
	}
	st.servers = append(st.servers, s)
	return s, nil
}

// protocol makes the protocol of a connection. It closes fd if Options.Protocol panics.
func (s *Server) protocol(fd int) Protocol {
	returned := false
	defer func() {
		if !returned {
			s.st.sockets.K.CloseFD(fd)
		}
	}()
	p := s.o.Protocol()
	if p == nil {
		panic("transport: Options.Protocol returned nil")
	}
	returned = true
	return p
}

func (s *Server) accept(fd int) {
	p := s.protocol(fd)
	if !s.o.Delay && s.addr.Family() != kernel.Unix {
		s.st.sockets.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := s.st.newConn(fd, sock.KindOf(s.addr.Family()), p, s)
	if err != nil {
		s.failed(err)
		return
	}
	s.conns++
	if s.o.MaxConns > 0 && s.conns >= s.o.MaxConns {
		s.listener.Pause()
	}
	if s.o.TLS == nil {
		c.announce()
		return
	}
	c.state |= unannounced
	c.startHandshake(asServer, s.o.TLS, s.o.HandshakeTimeout, nil, func(err error) {
		if err == nil {
			c.state &^= unannounced
			c.announce()
		} else if s.o.OnError != nil {
			s.o.OnError(err)
		}
	})
}

// announce calls ConnectionMade.
func (c *Conn) announce() {
	c.guard(func() { c.proto.ConnectionMade(c) })
}

func (s *Server) failed(err error) {
	if s.o.OnError != nil {
		s.o.OnError(sock.Error("accept", s.network, nil, s.Addr(), err))
	}
}

// connLost is called when a connection has ended.
func (s *Server) connLost() {
	s.conns--
	if s.onConnLost != nil {
		s.onConnLost()
	}
	if !s.closed && s.o.MaxConns > 0 && s.conns < s.o.MaxConns {
		s.listener.Resume()
	}
	if s.conns == 0 {
		for _, done := range s.drained {
			s.st.sockets.L.Internal().CallSoon(loopcore.RunAtClose, done)
		}
		s.drained = nil
	}
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return sock.NetAddr(s.network, s.addr) }

// Conns returns the number of open connections.
func (s *Server) Conns() int {
	s.checkLoop("Conns")
	return s.conns
}

func (s *Server) checkLoop(op string) {
	if s.st.sockets.L.Internal().Foreign() {
		panic("transport: Server." + op + " called from a goroutine that is not the loop's; use Post")
	}
}

// Loop returns the loop that the server is on.
func (s *Server) Loop() *loop.Loop { return s.st.sockets.L }

// Close stops accepting; connections stay open. The path of a Unix socket is removed,
// unless another socket has taken its place. Closing again does nothing.
func (s *Server) Close() error {
	s.checkLoop("Close")
	if s.closed {
		return nil
	}
	s.closed = true
	s.st.removeServer(s)
	return errors.Join(s.listener.Close(), s.file.Remove(s.st.sockets.K))
}

// loopClosing is called when the loop is closed.
func (s *Server) loopClosing() { s.Close() }

// Drain closes the server like Close and calls done once the last connection is lost.
// Call CloseConns or AbortConns to end the connections.
func (s *Server) Drain(done func()) error {
	if done == nil {
		panic("transport: Drain with a nil function")
	}
	err := s.Close()
	if s.conns == 0 {
		s.st.sockets.L.Internal().CallSoon(loopcore.RunAtClose, done)
		return err
	}
	s.drained = append(s.drained, done)
	return err
}
