package web

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Service is a Server that listens on an address. Its methods may be called from any
// goroutine, task and callback, except Shutdown, which waits.
type Service struct {
	server  *Server
	handler http.Handler
	mux     router // the handler, if it is a router
	inline  bool   // every request is inline

	protocols http.Protocols
	workers   workers
	addr      net.Addr
	std       *http.Server    // for http.ServerContextKey; it serves nothing
	ln        net.Listener    // that Serve was called with; nil otherwise
	base      context.Context // of all requests; nil for context.Background()

	accepts *transport.Server

	draining atomic.Bool
	closed   atomic.Bool // Close was called

	loopStates []*loopState              // one for each loop
	perLoop    perloop.Values[loopState] // the same by loop

	mu      sync.Mutex
	drained []func() // called when the service has ended; guarded by mu
	over    bool     // the service has ended; guarded by mu
	ended   int      // how many of loopStates have ended; guarded by mu
}

// Listen serves on an address of network "tcp", "tcp4", "tcp6" or "unix". It may be called
// by callbacks and tasks of the loop, and before the loop runs.
func (s *Server) Listen(l *loop.Loop, network, address string) (*Service, error) {
	if l == nil {
		panic("web: Server.Listen with a nil loop")
	}
	return s.start([]*loop.Loop{l}, func(sv *Service) (err error) {
		sv.accepts, err = transport.Listen(l, network, address, sv.options())
		return err
	})
}

// ListenGroup is Listen on all loops of a group, before it runs.
func (s *Server) ListenGroup(g *loop.Group, network, address string) (*Service, error) {
	if g == nil {
		panic("web: Server.ListenGroup with a nil group")
	}
	return s.start(g.Loops(), func(sv *Service) (err error) {
		sv.accepts, err = transport.ListenGroup(g, network, address, sv.options())
		return err
	})
}

// start makes a service on the loops; listen sets its accepts. After Shutdown or Close
// it fails with http.ErrServerClosed.
func (s *Server) start(loops []*loop.Loop, listen func(*Service) error) (*Service, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, http.ErrServerClosed
	}
	sv := s.begin()
	if err := listen(sv); err != nil {
		return nil, err
	}
	sv.addr = sv.accepts.Addr()
	if s.BaseContext != nil {
		sv.base = s.BaseContext(sv.listener())
		if sv.base == nil {
			panic("web: BaseContext returned a nil context")
		}
	}
	if s.Pool != nil {
		sv.base = s.Pool.In(cmp.Or(sv.base, context.Background()))
	}
	for _, l := range loops {
		sv.loopStates = append(sv.loopStates, newLoopState(sv, l))
	}
	if !s.register(sv) {
		sv.Close()
		return nil, http.ErrServerClosed
	}
	for _, st := range sv.loopStates { // SetKeepAlivesEnabled knows the service now
		st.setKeepAlives(!sv.closesConns())
	}
	return sv, nil
}

// register adds sv to the services that Shutdown and Close end. It reports false if one of
// them was called before.
func (s *Server) register(sv *Service) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.services = append(s.services, sv)
	return true
}

// forget removes a service that has ended.
func (s *Server) forget(sv *Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services = slices.DeleteFunc(s.services, func(o *Service) bool { return o == sv })
}

// running returns the services that have not ended, the oldest first.
func (s *Server) running() []*Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.services)
}

// WrapListener is Listen on an existing listener: a *net.TCPListener or a *net.UnixListener,
// for example one that a service manager passed. The service closes ln when it stops
// accepting.
func (s *Server) WrapListener(l *loop.Loop, ln net.Listener) (*Service, error) {
	if l == nil || ln == nil {
		panic("web: Server.WrapListener with a nil argument")
	}
	socket, err := socketOf(ln)
	if err != nil {
		return nil, err
	}
	return s.start([]*loop.Loop{l}, func(sv *Service) (err error) {
		sv.ln = ln
		sv.accepts, err = transport.Listen(l, "", "", sv.optionsOn(socket))
		return err
	})
}

// wrapGroup is ListenGroup on an existing listener.
func (s *Server) wrapGroup(g *loop.Group, ln net.Listener) (*Service, error) {
	socket, err := socketOf(ln)
	if err != nil {
		return nil, err
	}
	return s.start(g.Loops(), func(sv *Service) (err error) {
		sv.ln = ln
		sv.accepts, err = transport.ListenGroup(g, "", "", sv.optionsOn(socket))
		return err
	})
}

// optionsOn returns the options for a socket that already listens.
func (sv *Service) optionsOn(socket syscall.Conn) transport.Options {
	o := sv.options()
	o.Sock = socket
	return o
}

// socketOf returns the listener's socket. A listener of another type is refused: the loop
// would bypass its Accept.
func socketOf(ln net.Listener) (syscall.Conn, error) {
	switch ln := ln.(type) {
	case *net.TCPListener:
		return ln, nil
	case *net.UnixListener:
		return ln, nil
	}
	return nil, fmt.Errorf("web: Serve: cannot accept from a %T; pass a *net.TCPListener or *net.UnixListener, and set Server.TLS for TLS", ln)
}

// begin makes a service that does not listen yet.
func (s *Server) begin() *Service {
	sv := &Service{server: s, handler: s.handler(), protocols: s.protocols()}
	sv.std = s.standard(sv.handler)
	sv.mux, _ = sv.handler.(router)
	if in, ok := sv.handler.(*inline); ok {
		sv.handler, sv.inline = in.h, true
	}
	if sv.workers.limit = s.MaxWorkers; sv.workers.limit <= 0 {
		sv.workers.limit = 10_000
	}
	return sv
}

func (sv *Service) options() transport.Options {
	noLoop := &loopState{sv: sv} // until ConnectionMade, a connection knows only its service
	return transport.Options{
		Protocol: func() transport.Protocol { return &conn{st: noLoop} },
		MaxConns: sv.server.MaxConns,
		TLS:      sv.server.tls(),

		HandshakeTimeout: sv.server.HeaderTimeout, // with the same defaults

		RefusePlain: refusePlain,
		OnError:     sv.server.logListen,
	}
}

// Addr returns the address that the service listens on.
func (sv *Service) Addr() net.Addr { return sv.addr }

// loopStateEnded counts the states that have ended, by a shutdown or with their loop. The
// service ends with the last one.
func (sv *Service) loopStateEnded(st *loopState) {
	sv.mu.Lock()
	last := false
	if !st.ended {
		st.ended = true
		sv.ended++
		last = sv.ended == len(sv.loopStates)
	}
	sv.mu.Unlock()
	if last {
		sv.workers.close()
		sv.finish()
	}
}

// each calls fn for every loop state, on its loop.
func (sv *Service) each(fn func(*loopState)) {
	for _, st := range sv.loopStates {
		_ = st.l.Internal().Post(atclose.Drop, func() { fn(st) })
	}
}
