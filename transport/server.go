package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Options configure a server.
type Options struct {
	// Protocol makes the protocol of a new connection, or returns one that
	// serves all. It is required.
	Protocol func() Protocol

	// Backlog is how many connections the system keeps until they are
	// accepted. Zero means 4096.
	Backlog int

	// MaxConns is how many connections are open at most; the next ones wait
	// in the backlog. Zero means no limit.
	MaxConns int

	// ReusePort lets several servers listen on one address; the system
	// spreads connections over them.
	ReusePort bool

	// Delay has the system collect small writes to TCP peers (Nagle's
	// algorithm); without it they are sent at once.
	Delay bool

	// TLS has connections be secured. Nil means that they are not. It is used
	// as it is, by all of them, and must not be changed. What it has called
	// (GetCertificate and the like) is called on workers of the loop, and may
	// block.
	TLS *tls.Config

	// HandshakeTimeout is how long a handshake of TLS may take. Zero means 10
	// seconds, less means for ever.
	HandshakeTimeout time.Duration

	// RefusePlain is called on the loop when the first bytes of a connection are
	// not TLS, with those bytes. What it returns is sent in the clear before the
	// connection is closed. Nil, or to return nil, closes it without a word.
	RefusePlain func(first []byte) (answer []byte)

	// OnError is told when connections cannot be accepted, for want of
	// descriptors or memory: once for each such spell, after which accepting
	// goes on by itself. It is told too of each handshake that fails: the Op of
	// that *net.OpError is "handshake", or "local error" or "remote error" for
	// an alert of TLS.
	OnError func(error)
}

// Server accepts connections on one address. Listen makes one.
type Server struct {
	st       *station
	o        Options
	listener *sock.Listener
	network  string
	addr     kernel.Addr
	file     sock.File
	conns    int      // open
	drained  []func() // to be called when none is
	left     func()   // told of each that is lost; may be nil
	closed   bool
}

// Listen accepts connections on an address of network "tcp", "tcp4", "tcp6" or
// "unix". It is asyncio's create_server. Of the host only an address is taken, as
// looking up a name would wait; port 0 takes a free one. It fails with a
// *net.OpError.
func Listen(l *loop.Loop, network, address string, o Options) (*Server, error) {
	if o.Protocol == nil {
		panic("transport: Listen without a Protocol")
	}
	st := stationOf(l)
	fd, err := st.bind(network, address, sock.Binding{Backlog: o.Backlog, ReusePort: o.ReusePort})
	if err != nil {
		return nil, err
	}
	var file sock.File
	if network == "unix" {
		file = sock.Claim(st.hub.K, kernel.Addr{Path: address})
	}
	s, err := st.serve(fd, network, o)
	if err != nil {
		file.Remove(st.hub.K)
		return nil, err
	}
	s.file = file
	return s, nil
}

// bind makes a socket that listens.
func (st *station) bind(network, address string, b sock.Binding) (int, error) {
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
	fd, err := st.hub.Bind(a, b)
	if fallback, ok := t.WithoutIPv6(); ok && (err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL) {
		a = fallback
		fd, err = st.hub.Bind(a, b)
	}
	return fd, sock.Error("listen", network, nil, sock.NetAddr(network, a), err)
}

func (st *station) serve(fd int, network string, o Options) (*Server, error) {
	s := &Server{st: st, o: o, network: network}
	var err error
	if s.addr, err = st.hub.K.LocalAddr(fd); err == nil {
		s.listener, err = st.hub.Listen(fd, s.accept, s.failed)
	}
	if err != nil {
		st.hub.K.CloseFD(fd)
		return nil, sock.Error("listen", network, nil, nil, err)
	}
	st.servers = append(st.servers, s)
	return s, nil
}

// protocol makes the protocol of a connection, which is closed if that panics.
func (s *Server) protocol(fd int) Protocol {
	returned := false
	defer func() {
		if !returned {
			s.st.hub.K.CloseFD(fd)
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
		s.st.hub.K.SetOption(fd, kernel.NoDelay, 1)
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
		c.made()
		return
	}
	c.state |= unmade
	c.shakeHands(asServer, s.o.TLS, s.o.HandshakeTimeout, nil, func(err error) {
		if err == nil {
			c.state &^= unmade
			c.made()
		} else if s.o.OnError != nil {
			s.o.OnError(err)
		}
	})
}

// made tells the protocol of the connection, on the way to the first data.
func (c *Conn) made() {
	c.guarded(func() { c.proto.ConnectionMade(c) })
}

func (s *Server) failed(err error) {
	if s.o.OnError != nil {
		s.o.OnError(sock.Error("accept", s.network, nil, s.Addr(), err))
	}
}

// forget is the end of a connection.
func (s *Server) forget() {
	s.conns--
	if s.left != nil {
		s.left()
	}
	if !s.closed && s.o.MaxConns > 0 && s.conns < s.o.MaxConns {
		s.listener.Resume()
	}
	if s.conns == 0 {
		for _, done := range s.drained {
			s.st.hub.L.CallSoonWith(loop.RunAtClose, done)
		}
		s.drained = nil
	}
}

// Addr is the address the server listens on.
func (s *Server) Addr() net.Addr { return sock.NetAddr(s.network, s.addr) }

// Conns is how many connections are open.
func (s *Server) Conns() int {
	s.only("Conns")
	return s.conns
}

func (s *Server) only(op string) {
	if s.st.hub.L.Foreign() {
		panic("transport: Server." + op + " called from a goroutine that is not the loop's; use Post")
	}
}

// Loop is the loop that the server is on.
func (s *Server) Loop() *loop.Loop { return s.st.hub.L }

// Close stops to accept; connections stay. The path of a Unix socket is removed,
// unless another socket has taken its place.
// Closing again does nothing.
func (s *Server) Close() error {
	s.only("Close")
	if s.closed {
		return nil
	}
	s.closed = true
	s.st.forget(s)
	return errors.Join(s.listener.Close(), s.file.Remove(s.st.hub.K))
}

// loopClosing is called when the loop is closed.
func (s *Server) loopClosing() { s.Close() }

// Drain is Close, and calls done once the last connection is lost. Who wants an
// end to it calls CloseConns or AbortConns.
func (s *Server) Drain(done func()) error {
	if done == nil {
		panic("transport: Drain with a nil function")
	}
	err := s.Close()
	if s.conns == 0 {
		s.st.hub.L.CallSoonWith(loop.RunAtClose, done)
		return err
	}
	s.drained = append(s.drained, done)
	return err
}
