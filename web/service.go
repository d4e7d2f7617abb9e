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

// Service is a Server that listens on an address. Its methods may be called from any
// goroutine, task and callback.
type Service struct {
	server  *Server
	handler http.Handler
	mux     router // the handler, if it is a router
	inline  bool   // every request is inline
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
		_ = st.l.Internal().Post(loopcore.DropAtClose, func() { fn(st) })
	}
}

// Drain stops accepting connections, answers the requests under way and closes every
// connection after its response. It calls done on a loop when the last connection has
// ended. Close ends the wait. Like net/http, Drain does not wait for connections that a
// handler has taken with Hijack or Upgrade, except for those that end by themselves: those
// of ws.Accept get a Close, and protocols can implement Drainer.
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
		sv.group.EachConn(notifyDrain)
		sv.each((*loopState).drain)
		return
	}
	_ = sv.one.Loop().Internal().Post(loopcore.DropAtClose, func() {
		_ = sv.one.Drain(sv.endLoopStates)
		sv.one.EachConn(notifyDrain)
		sv.each((*loopState).drain)
	})
}

// Drainer is implemented by a protocol of Upgrade that closes its connection when the server
// drains. Drain waits for such a connection, and for no other of Upgrade.
type Drainer interface {
	// Draining is called once, on the connection's loop.
	Draining(c *transport.Conn)
}

// notifyDrain notifies the connection's protocol, now or when the connection is upgraded.
func notifyDrain(tc *transport.Conn) {
	switch p := tc.Protocol().(type) {
	case *conn:
		p.marks |= drainSeen
	case Drainer:
		p.Draining(tc)
	default:
		tc.LeaveServer() // like a hijacked connection
	}
}

// drain closes the connections that wait for a request. The others close after their
// responses.
func (st *loopState) drain() {
	st.mode = modeDraining
	st.idle.each((*conn).hangUp)
	st.heads.each(func(c *conn) {
		if !c.partial() {
			c.hangUp()
		}
	})
}

// endLoopStates is called when the last connection has ended.
func (sv *Service) endLoopStates() {
	sv.workers.close()
	sv.each((*loopState).end) // the state on a loop that is closed has ended
}

// end ends timers, tasks and the log. The loop keeps the state until then, to end it if the
// loop is closed earlier.
func (st *loopState) end() {
	for _, q := range []*timeoutList{&st.heads, &st.idle, &st.bodies, &st.lingering} {
		q.timer.Cancel()
	}
	last := func(error) {
		st.log.end(func() {
			st.sv.perLoop.Remove(st.l.Internal())
			st.sv.loopStateEnded(st)
		})
	}
	if st.nursery == nil {
		last(nil)
		return
	}
	end := st.endTasks
	st.endTasks = nil // the nursery stays, for tasks that use a hijacked connection
	end(last)
}

// finish calls the functions that wait for the end of the service.
func (sv *Service) finish() {
	sv.mu.Lock()
	sv.over = true
	sv.mu.Unlock()
	sv.server.forget(sv)
	sv.callDrained()
}

func (sv *Service) callDrained() {
	sv.mu.Lock()
	drained := sv.drained
	sv.drained = nil
	sv.mu.Unlock()
	for _, done := range drained {
		done()
	}
}

// Close ends the service and its connections at once. The contexts of requests under way
// end with ErrServerClosed as their cause. Close does not wait; Drain, called before or
// after it, calls a function when the service has ended.
func (sv *Service) Close() {
	sv.Drain(func() {})
	sv.each(func(st *loopState) { st.cause, st.mode = ErrServerClosed, modeDraining })
	if sv.group != nil {
		sv.group.AbortConns()
		return
	}
	_ = sv.one.Loop().Internal().Post(loopcore.DropAtClose, sv.one.AbortConns)
}

// Shutdown drains the service and waits until it has ended. When ctx ends first, it closes
// the service and returns why ctx has ended. It may be called in tasks.
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
