package web

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/transport"
)

// Shutdown stops accepting, closes idle connections, at once or after DrainIdle, and waits
// for the requests under way. When ctx ends first, it closes the remaining connections, which
// http.Server would leave open, and returns why ctx has ended. Serve and ListenAndServe return
// http.ErrServerClosed after the last connection has ended, not at once; later calls return it
// at once. Like http.Server, Shutdown does not wait for connections that a handler has taken
// with Hijack or Upgrade; Service.Drain says which ones it notifies. It may be called from any
// goroutine, and in tasks with the task's context.
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

// Close ends the server and its connections at once. The contexts of requests under way
// end with http.ErrServerClosed as their cause. Close does not wait, may be called from
// anywhere, and returns nil; it has a result because http.Server's has. Use Shutdown to wait
// for the requests.
func (s *Server) Close() error {
	for _, sv := range s.end() {
		sv.Close()
	}
	return nil
}

// end makes later calls to serve fail. It returns the running services.
func (s *Server) end() []*Service {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.running()
}

// SetKeepAlivesEnabled sets whether connections are kept for further requests. They are by
// default. Disabling keep-alives closes idle connections, and the others after their
// responses, which announce it. It may be called from anywhere. To close only the connections
// that are idle now, disable keep-alives and enable them again.
func (s *Server) SetKeepAlivesEnabled(enabled bool) {
	s.noKeepAlives.Store(!enabled)
	for _, sv := range s.running() {
		sv.each(func(st *loopState) {
			st.setKeepAlives(!s.noKeepAlives.Load()) // the last call decides
			if !enabled {
				st.idle.each((*conn).hangUp)
			}
		})
	}
}

// closesConns reports whether connections close after the request under way.
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

// Drain stops accepting connections, answers the requests under way and closes every
// connection after its response. Connections that wait for a request are closed at once, or
// after DrainIdle. Drain calls done on a loop when the last connection has
// ended. Close ends the wait. Like net/http, Drain does not wait for connections that a
// handler has taken with Hijack or Upgrade, except for those that end by themselves: those
// of package ws get a Close, and protocols of Upgrade may have a method Draining.
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
	sv.atAccepts(func() {
		if sv.closed.Load() {
			_ = sv.accepts.Close() // what is queued is not accepted, and stays for other owners of the socket
		}
		_ = sv.accepts.Drain(sv.endLoopStates)
		sv.accepts.EachConn(notifyDrain)
		sv.each((*loopState).drain)
	})
}

// atAccepts calls fn where the methods of sv.accepts may be called: on a single loop, or
// anywhere if there are several.
func (sv *Service) atAccepts(fn func()) {
	if len(sv.loopStates) > 1 {
		fn()
		return
	}
	_ = sv.loopStates[0].l.Internal().Post(atclose.Drop, fn)
}

// drainer is a protocol of Upgrade with the method that Upgrade documents.
type drainer interface{ Draining(c *transport.Conn) }

// notifyDrain notifies the connection's protocol, now or when the connection is upgraded.
func notifyDrain(tc *transport.Conn) {
	switch p := tc.Protocol().(type) {
	case *conn:
		p.marks |= drainSeen
		if h := p.h2(); h != nil && !h.idle() {
			h.drainTunnels()
			h.leave()
		}
	case drainer:
		p.Draining(tc)
	default:
		tc.LeaveServer() // like a hijacked connection
	}
}

// drain closes the connections that wait for a request, now or after DrainIdle. The others
// close after their responses.
func (st *loopState) drain() {
	st.mode = modeDraining
	st.heads.each(func(c *conn) {
		if !c.partial() {
			st.idle.add(c)
		}
	})
	st.idle.restart(st.sv.server.DrainIdle)
}

// closesIdle reports whether a connection that waits for a request is closed at once.
func (st *loopState) closesIdle() bool {
	switch st.mode {
	case modeKeepAlive:
		return false
	case modeDraining:
		return st.sv.server.DrainIdle <= 0 || st.sv.closed.Load()
	}
	return true
}

// endLoopStates is called when the last connection has ended.
func (sv *Service) endLoopStates() {
	sv.workers.close()
	sv.each((*loopState).end) // the state on a loop that is closed has ended
}

// end ends timers, tasks and the log. The loop keeps the state until then, to end it if the
// loop is closed earlier.
func (st *loopState) end() {
	for _, q := range []*timeoutList{&st.heads, &st.idle, &st.bodies, &st.lingering, &st.leaving} {
		q.timer.Cancel()
	}
	last := func(error) {
		st.log.end(func() {
			st.sv.perLoop.Remove(st.l)
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

// Close ends the service and its connections at once. The contexts of requests under way
// end with http.ErrServerClosed as their cause. Close does not wait; Drain, called before or
// after it, calls a function when the service has ended. Close returns nil; it has a result
// because io.Closer's has.
func (sv *Service) Close() error {
	sv.closed.Store(true) // before a connection ends: its request's cause depends on it
	sv.Drain(func() {})
	sv.each(func(st *loopState) { st.mode = modeDraining })
	sv.atAccepts(func() { sv.accepts.EachConn((*transport.Conn).Abort) })
	return nil
}

// Shutdown drains the service and waits until it has ended. When ctx ends first, it closes
// the service and returns why ctx has ended. It may be called in tasks, but not in callbacks of
// the service's loops.
func (sv *Service) Shutdown(ctx context.Context) error {
	if spindle.Current(ctx) == nil {
		if slices.ContainsFunc(sv.loopStates, func(st *loopState) bool { return st.l.Owns() }) {
			panic("web: Service.Shutdown called on its loop, which it would block; pass on the ctx of the task, or use Drain")
		}
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
	sv.Drain(func() { _ = l.Internal().Post(atclose.Drop, func() { ended.Resolve(struct{}{}) }) })
	_, err := ended.Await(ctx)
	if err == nil {
		return nil
	}
	sv.Close()
	return errors.Join(err, spindle.Grace(ctx, handlerGrace, func(ctx context.Context) error {
		_, err := ended.Await(ctx)
		return err
	}))
}

// handlerGrace is how long inline handlers may take to return after their connections were
// closed. It is that of NurseryOn, which makes them exit then.
const handlerGrace = 5 * time.Second
