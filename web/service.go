package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Service is a server that listens. Its methods may be called from any goroutine,
// and from tasks and callbacks.
type Service struct {
	server  *Server
	handler http.Handler
	mux     router // the handler, if it can tell where requests go
	inline  bool   // the handler is, for all requests
	workers workers
	addr    net.Addr
	std     *http.Server    // for http.ServerContextKey; it serves nothing
	ln      net.Listener    // that Serve was called with; nil otherwise
	base    context.Context // of all requests; nil for context.Background()

	one   *transport.Server // one of the two is nil
	group *transport.GroupServer

	draining atomic.Bool

	loopStates []*loopState                // one for each loop
	perLoop    loopcore.PerLoop[loopState] // the same by loop

	mu      sync.Mutex
	drained []func() // to be called when all has ended; guarded by mu
	over    bool     // all has ended; guarded by mu
	gone    int      // loopStates whose loop was closed; guarded by mu
}

// Listen serves on an address of network "tcp", "tcp4", "tcp6" or "unix", as a part of
// the loop: it is for callbacks and tasks of the loop, or for before it runs.
func (s *Server) Listen(l *loop.Loop, network, address string) (*Service, error) {
	if l == nil {
		panic("web: Server.Listen with a nil loop")
	}
	return s.start([]*loop.Loop{l}, func(sv *Service) (err error) {
		sv.one, err = transport.Listen(l, network, address, sv.options())
		return err
	})
}

// ListenGroup is Listen on all loops of a group, before it runs.
func (s *Server) ListenGroup(g *loop.Group, network, address string) (*Service, error) {
	if g == nil {
		panic("web: Server.ListenGroup with a nil group")
	}
	return s.start(g.Loops(), func(sv *Service) (err error) {
		sv.group, err = transport.ListenGroup(g, network, address, transport.GroupOptions{Options: sv.options()})
		return err
	})
}

// begin makes a service that does not listen yet.
func (s *Server) begin() *Service {
	sv := &Service{server: s, handler: s.handler()}
	sv.std = s.standard(sv.handler)
	sv.mux, _ = sv.handler.(router)
	_, sv.inline = sv.handler.(*inline)
	if sv.workers.most = s.MaxWorkers; sv.workers.most <= 0 {
		sv.workers.most = 10_000
	}
	return sv
}

func (sv *Service) options() transport.Options {
	home := &loopState{sv: sv} // tells the connection whose it is; it has no loop yet
	return transport.Options{
		Protocol: func() transport.Protocol { return &conn{st: home} },
		MaxConns: sv.server.MaxConns,
		TLS:      sv.server.tls(),

		HandshakeTimeout: sv.server.HeaderTimeout, // with the same defaults

		RefusePlain: refusePlain,
		OnError:     sv.server.logListen,
	}
}

// Addr is the address that it listens on.
func (sv *Service) Addr() net.Addr { return sv.addr }

// loopClosed ends the service with the last loop, if it has not ended in order.
func (sv *Service) loopClosed() {
	sv.mu.Lock()
	sv.gone++
	last := sv.gone == len(sv.loopStates)
	sv.mu.Unlock()
	if last {
		sv.workers.close()
		sv.finish()
	}
}

// each calls fn for every loop state, on its loop.
func (sv *Service) each(fn func(*loopState)) {
	for _, st := range sv.loopStates {
		_ = st.l.Internal().Post(loopcore.DropAtClose, func() { fn(st) })
	}
}

// Drain stops to accept. Requests under way are answered, and connections closed
// after them; done is called, on a loop, when the last has gone. To put an end to that,
// call Close. Hijacked connections are left to their handlers, as by net/http; those of
// ws.Accept get a Close and are waited for.
func (sv *Service) Drain(done func()) {
	if done == nil {
		panic("web: Drain with a nil function")
	}
	sv.whenOver(done)
	if sv.draining.Swap(true) {
		return
	}
	if sv.ln != nil {
		sv.ln.Close() // the transport has a descriptor of its own
	}
	if sv.group != nil {
		_ = sv.group.Drain(sv.endLoopStates)
		sv.group.EachConn(drainUpgraded)
		sv.each((*loopState).drain)
		return
	}
	_ = sv.one.Loop().Internal().Post(loopcore.DropAtClose, func() {
		_ = sv.one.Drain(sv.endLoopStates)
		sv.one.EachConn(drainUpgraded)
		sv.each((*loopState).drain)
	})
}

// Drainer is a protocol that Upgrade has given a connection to and that wants to know
// when the server drains, to end it in its own way.
type Drainer interface {
	// Draining is called on the connection's loop, once.
	Draining(c *transport.Conn)
}

// drainUpgraded tells of it, at once or when the connection has been upgraded.
func drainUpgraded(tc *transport.Conn) {
	switch p := tc.Protocol().(type) {
	case *conn:
		p.flags |= drains
	case Drainer:
		p.Draining(tc)
	}
}

// drain closes the connections that wait for a request. The others see the flag when
// they have answered theirs.
func (st *loopState) drain() {
	st.draining, st.closesIdle = true, true
	st.idle.each((*conn).hangUp)
	st.heads.each(func(c *conn) {
		if !c.within() {
			c.hangUp()
		}
	})
}

// tooLarge is what reading a body fails with that turned out longer than it may be.
func (sv *Service) tooLarge() error { return &http.MaxBytesError{Limit: sv.server.MaxBodyBytes} }

// endLoopStates is called when the last connection has gone.
func (sv *Service) endLoopStates() {
	sv.workers.close()
	var left atomic.Int64
	left.Store(int64(len(sv.loopStates)) + 1)
	ended := func(error) {
		if left.Add(-1) == 0 {
			sv.finish()
		}
	}
	for _, st := range sv.loopStates {
		if st.l.Internal().Post(loopcore.DropAtClose, func() { st.end(ended) }) != nil {
			ended(nil)
		}
	}
	ended(nil)
}

// end ends timers, tasks and the log.
func (st *loopState) end(done func(error)) {
	for _, q := range []*timeoutList{&st.heads, &st.idle, &st.bodies, &st.lingering} {
		q.timer.Cancel()
	}
	last := func(err error) { st.log.end(func() { done(err) }) }
	if st.nursery == nil {
		last(nil)
		return
	}
	end := st.endTasks
	st.endTasks = nil // the nursery stays, for tasks that use a hijacked connection
	end(last)
}

// finish tells those who wait for the end.
func (sv *Service) finish() {
	sv.mu.Lock()
	sv.over = true
	sv.mu.Unlock()
	sv.server.forget(sv)
	sv.tell()
}

func (sv *Service) tell() {
	sv.mu.Lock()
	drained := sv.drained
	sv.drained = nil
	sv.mu.Unlock()
	for _, done := range drained {
		done()
	}
}

// Close ends the service and its connections at once. The contexts of requests under
// way end with ErrServerClosed as their cause. To be told when all has ended, call
// Drain, before or after it.
func (sv *Service) Close() {
	sv.Drain(func() {})
	abort := func(st *loopState) {
		st.cause = ErrServerClosed
		st.draining, st.closesIdle = true, true
	}
	sv.each(abort)
	if sv.group != nil {
		sv.group.AbortConns()
		return
	}
	_ = sv.one.Loop().Internal().Post(loopcore.DropAtClose, sv.one.AbortConns)
}

// Shutdown is Drain, and waits for the end: as a task if it is called in one. When ctx
// ends it calls Close, and returns why ctx has ended.
func (sv *Service) Shutdown(ctx context.Context) error {
	if spindle.Current(ctx) == nil {
		ended := make(chan struct{})
		sv.Drain(func() { close(ended) })
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
		}
		sv.Close()
		<-ended
		return context.Cause(ctx)
	}
	ended := spindle.NewFuture[struct{}](ctx)
	l := spindle.LoopOf(ctx)
	sv.Drain(func() { _ = l.Internal().Post(loopcore.DropAtClose, func() { ended.Resolve(struct{}{}) }) })
	_, err := ended.Await(ctx)
	if err == nil {
		return nil
	}
	sv.Close()
	return errors.Join(err, spindle.Shield(ctx, func(ctx context.Context) error {
		_, err := ended.Await(ctx)
		return err
	}))
}
