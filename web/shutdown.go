package web

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// start makes a service on the loops. listen sets one or group of it. After Shutdown or
// Close start fails with ErrServerClosed.
func (s *Server) start(loops []*loop.Loop, listen func(*Service) error) (*Service, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, ErrServerClosed
	}
	sv := s.begin()
	if err := listen(sv); err != nil {
		return nil, err
	}
	if sv.group != nil {
		sv.addr = sv.group.Addr()
	} else {
		sv.addr = sv.one.Addr()
	}
	if s.BaseContext != nil {
		sv.base = s.BaseContext(sv.listener())
		if sv.base == nil {
			panic("web: BaseContext returned a nil context")
		}
	}
	for _, l := range loops {
		sv.loopStates = append(sv.loopStates, newLoopState(sv, l))
	}
	if !s.register(sv) {
		sv.Close()
		return nil, ErrServerClosed
	}
	for _, st := range sv.loopStates { // SetKeepAlivesEnabled knows the service now
		st.setKeepAlives(!sv.closesConns())
	}
	return sv, nil
}

// register makes sv known to Shutdown and Close. It reports false after one of them.
func (s *Server) register(sv *Service) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.services == nil {
		s.services = make(map[*Service]struct{})
	}
	s.services[sv] = struct{}{}
	return true
}

// forget removes a service that has ended.
func (s *Server) forget(sv *Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, sv)
}

// running returns the services that have not ended.
func (s *Server) running() []*Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	services := make([]*Service, 0, len(s.services))
	for sv := range s.services {
		services = append(services, sv)
	}
	return services
}

// wrap is Listen on a listener that exists.
func (s *Server) wrap(l *loop.Loop, ln net.Listener) (*Service, error) {
	socket, err := socketOf(ln)
	if err != nil {
		return nil, err
	}
	return s.start([]*loop.Loop{l}, func(sv *Service) (err error) {
		sv.ln = ln
		sv.one, err = transport.WrapListener(l, socket, sv.options())
		return err
	})
}

// wrapGroup is ListenGroup on a listener that exists.
func (s *Server) wrapGroup(g *loop.Group, ln net.Listener) (*Service, error) {
	socket, err := socketOf(ln)
	if err != nil {
		return nil, err
	}
	return s.start(g.Loops(), func(sv *Service) (err error) {
		sv.ln = ln
		sv.group, err = transport.WrapListenerGroup(g, socket, transport.GroupOptions{Options: sv.options()})
		return err
	})
}

// socketOf returns the listener's socket. A listener of another type may do something
// of its own in Accept, which would be bypassed.
func socketOf(ln net.Listener) (syscall.Conn, error) {
	switch ln := ln.(type) {
	case *net.TCPListener:
		return ln, nil
	case *net.UnixListener:
		return ln, nil
	}
	return nil, fmt.Errorf("web: Serve: cannot accept from a %T; pass a *net.TCPListener or *net.UnixListener, and set Server.TLS for TLS", ln)
}

// Shutdown ends the server in order, like Service.Shutdown for everything that the
// server serves: it stops accepting, closes idle connections, and waits for the
// requests under way. When ctx ends first it closes the remaining connections and
// returns why ctx has ended. Serve and ListenAndServe return ErrServerClosed after the
// last connection has ended, and from then on at once. Shutdown may be called from
// any goroutine, and in tasks with the task's context.
func (s *Server) Shutdown(ctx context.Context) error {
	services := s.end()
	for _, sv := range services {
		sv.Drain(func() {})
	}
	var first error
	for _, sv := range services {
		if err := sv.Shutdown(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Close ends the server and all of its connections at once. The contexts of requests
// under way end with ErrServerClosed as their cause. Close does not wait, and may be
// called from anywhere. For a gentle end use Shutdown.
func (s *Server) Close() error {
	for _, sv := range s.end() {
		sv.Close()
	}
	return nil
}

// end makes the server refuse to serve from now on. It returns what it serves.
func (s *Server) end() []*Service {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.running()
}

// CloseIdleConnections closes the connections that wait for their next request. It may
// be called from anywhere, and does not wait.
func (s *Server) CloseIdleConnections() {
	for _, sv := range s.running() {
		sv.each(func(st *loopState) { st.idle.each((*conn).hangUp) })
	}
}

// SetKeepAlivesEnabled sets whether a connection is kept for further requests, as it is
// by default. When keep-alives are disabled every response says that the connection
// will be closed, and idle connections are closed. It may be called from anywhere.
func (s *Server) SetKeepAlivesEnabled(enabled bool) {
	s.noKeepAlives.Store(!enabled)
	for _, sv := range s.running() {
		sv.each(func(st *loopState) {
			if st.setKeepAlives(!sv.closesConns()); st.mode != modeKeepAlive {
				st.idle.each((*conn).hangUp)
			}
		})
	}
}

// closesConns reports whether connections end with the request under way.
func (sv *Service) closesConns() bool {
	return sv.draining.Load() || sv.server.noKeepAlives.Load()
}

// setKeepAlives sets the mode of a loop that is not draining.
func (st *loopState) setKeepAlives(enabled bool) {
	switch {
	case st.mode == modeDraining:
	case enabled:
		st.mode = modeKeepAlive
	default:
		st.mode = modeCloseIdle
	}
}

// whenOver calls fn, on a loop, when the service has ended.
func (sv *Service) whenOver(fn func()) {
	sv.mu.Lock()
	sv.drained = append(sv.drained, fn)
	over := sv.over
	sv.mu.Unlock()
	if over {
		sv.callDrained()
	}
}
