package transport

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// shard is the part of a Server on one loop.
type shard struct {
	s  *Server
	st *loopState
	ln *sock.Listener // nil if another loop accepts; its methods are loop goroutine only
	fd int            // of ln, valid until stopped is set

	shared bool // the socket has other owners and must not be shut down

	conns    atomic.Int64 // connections, including those being handed over to this loop
	heldBack atomic.Bool  // the listener is paused because of MaxConns

	mu         sync.Mutex
	file       sock.File // guarded by mu
	fds        []int     // handed over, and not served yet; guarded by mu
	emptying   bool      // counted in Server.emptying until stopped; guarded by mu
	stopped    bool      // the listener is closed; guarded by mu
	loopClosed bool      // guarded by mu
}

// listen binds a socket of the shard's own.
func (sh *shard) listen(network, address string) error {
	if sh.s.o.Sock != nil {
		return sh.wrapListener(sh.s.o.Sock)
	}
	fd, err := sh.st.bind(network, address, sock.Binding{
		Backlog:   sh.s.o.Backlog,
		ReusePort: sh.s.o.ReusePort,
	})
	if err != nil {
		return err
	}
	if network == "unix" {
		sh.file = sock.Claim(sh.st.sockets.K, kernel.Addr{Path: address})
	}
	return sh.watch(fd)
}

// watch accepts on fd, a listening socket. If it fails, it closes fd.
func (sh *shard) watch(fd int) (err error) {
	s, sockets := sh.s, sh.st.sockets
	sh.fd = fd
	if s.addr, err = sockets.K.LocalAddr(fd); err == nil {
		sh.ln, err = sockets.Listen(fd, sh.accept, sh.failed)
	}
	if err != nil {
		sh.file.Remove(sockets.K)
		sockets.K.CloseFD(fd)
	}
	return sock.Error("listen", s.network, nil, nil, err)
}

// onLoop reports whether the caller may use what belongs to the shard's loop.
func (sh *shard) onLoop() bool {
	l := sh.st.sockets.L
	return l.Owns() || !sh.s.group && !l.Internal().Foreign()
}

// closeListener closes the listener from any goroutine. Elsewhere than on the loop it
// shuts the socket down; the loop sees that as an event and closes it. Where the system
// supports that, it is better than posting a callback: a loop that stops now would never
// run it. A Unix socket refuses connections as soon as its path is removed. A socket with
// other owners is only closed on the loop, because shutting it down would end it for all
// of them.
func (sh *shard) closeListener() error {
	if sh.onLoop() {
		return sh.stop()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.stopped { // the descriptor number may be in use again
		return nil
	}
	err := sh.file.Remove(sh.st.sockets.K)
	l := sh.st.sockets.L
	if (sh.shared || sh.st.sockets.K.Native().Unlisten(sh.fd) != nil) && l.Internal().Running() {
		_ = l.Internal().Post(atclose.Drop, func() { sh.stop() }) // on a loop that does not run, accept or loopClosing does it
	}
	return err
}

// emptyQueue accepts what the system has queued and closes the listener, on its loop. If the
// loop is closed before it runs, loopClosing closes the listener.
func (sh *shard) emptyQueue() error {
	if !sh.beginEmptying() {
		return nil
	}
	if sh.onLoop() {
		return sh.empty()
	}
	_ = sh.st.sockets.L.Internal().Post(atclose.Drop, func() { sh.empty() })
	return nil
}

// beginEmptying counts the shard among those that Drain waits for, until stop. It reports
// false if the listener is closed.
func (sh *shard) beginEmptying() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.stopped {
		return false
	}
	sh.emptying = true
	sh.s.emptying.Add(1)
	return true
}

func (sh *shard) empty() (err error) {
	defer func() { err = sh.stop() }() // even if a protocol panics
	sh.ln.AcceptQueued(cmp.Or(sh.s.o.Backlog, sock.DefaultBacklog))
	return nil
}

// failed is called when nothing can be accepted.
func (sh *shard) failed(err error) {
	if sh.s.phase.Load() == serverClosed {
		sh.stop()
		return
	}
	sh.report(err)
}

// report calls OnError for a connection that could not be accepted.
func (sh *shard) report(err error) {
	if s := sh.s; s.o.OnError != nil {
		s.o.OnError(sock.Error("accept", s.network, nil, s.Addr(), err))
	}
}

// stop closes the listener. It is called on its loop, or before the loop runs.
func (sh *shard) stop() error {
	err := sh.stopListener()
	sh.callDrained()
	return err
}

func (sh *shard) stopListener() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.ln == nil || sh.stopped {
		return nil
	}
	sh.stopped = true
	if sh.emptying {
		sh.s.emptying.Add(-1)
	}
	sh.st.removeServer(sh)
	return errors.Join(sh.ln.Close(), sh.file.Remove(sh.st.sockets.K))
}

// accept assigns a new connection to a loop. It counts the connection before it checks
// that the server is open; Drain closes the server before it reads the count. So at
// least one of the two sees the other.
func (sh *shard) accept(fd int) {
	to := sh.s.pick(sh)
	to.conns.Add(1)
	sh.s.open.Add(1)
	switch {
	case sh.s.phase.Load() == serverClosed:
		sh.stop()
		fallthrough
	case to != sh && !to.handOver(fd):
		sh.st.sockets.K.CloseFD(fd)
		to.release()
		sh.callDrained()
	case to == sh:
		sh.serve(fd)
	}
	sh.holdBack()
}

// handOver passes a connection to the shard's loop. It reports false if the loop is
// closed. The list holds the descriptor, not the callback, because a loop that closes
// drops its callbacks.
func (sh *shard) handOver(fd int) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.loopClosed {
		return false
	}
	sh.fds = append(sh.fds, fd)
	// If the loop is closing this fails, and loopClosing empties the list.
	_ = sh.st.sockets.L.Internal().Post(atclose.Drop, sh.serveNext)
	return true
}

func (sh *shard) serveNext() {
	sh.mu.Lock()
	fd := sh.fds[0]
	sh.fds = sh.fds[1:]
	sh.mu.Unlock()
	sh.serve(fd)
}

// serve makes the connection. If that fails, or the protocol panics, serve takes it
// out of the count.
func (sh *shard) serve(fd int) {
	made, s := false, sh.s
	defer func() {
		if !made {
			sh.connLost()
		}
	}()
	p := sh.protocol(fd)
	if !s.o.Delay && s.addr.Family() != kernel.Unix {
		sh.st.sockets.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := sh.st.newConn(fd, sock.KindOf(s.addr.Family()), p, sh)
	if err != nil {
		sh.report(err)
		return
	}
	made = true
	if s.o.TLS == nil {
		c.announce()
		return
	}
	c.marks |= unannounced
	c.startHandshake(asServer, s.o.TLS, s.o.HandshakeTimeout, nil, func(err error) {
		if err == nil {
			c.marks &^= unannounced
			c.announce()
		} else if s.o.OnError != nil {
			s.o.OnError(err)
		}
	})
}

// protocol makes the protocol of a connection. It closes fd if Options.Protocol panics.
func (sh *shard) protocol(fd int) Protocol {
	returned := false
	defer func() {
		if !returned {
			sh.st.sockets.K.CloseFD(fd)
		}
	}()
	p := sh.s.o.Protocol()
	if p == nil {
		panic("transport: Options.Protocol returned nil")
	}
	returned = true
	return p
}

// announce calls ConnectionMade.
func (c *Conn) announce() {
	c.guard(func() { c.proto.ConnectionMade(c) })
}

// each calls fn for the shard's connections. It searches all connections of the loop: a
// list for each server would cost memory on every connection, for calls that are rare.
func (sh *shard) each(fn func(*Conn)) {
	sh.st.sockets.Each(func(o sock.Owner) {
		if c, ok := o.(*owner); ok && c.shard == sh {
			fn((*Conn)(c))
		}
	})
}

func (sh *shard) hasCapacity() bool {
	most := int64(sh.s.o.MaxConns)
	return most <= 0 || sh.conns.Load() < most
}

// holdBack pauses accepting while no loop has capacity. A connection that ends at the
// same time is seen by the second check, or by release.
func (sh *shard) holdBack() {
	if sh.ln == nil || sh.s.hasCapacity(sh) {
		return
	}
	sh.ln.Pause()
	sh.heldBack.Store(true)
	if sh.s.hasCapacity(sh) && sh.heldBack.CompareAndSwap(true, false) {
		sh.ln.Resume()
	}
}

// connLost is called on the shard's loop when a connection has ended.
func (sh *shard) connLost() {
	sh.release()
	sh.callDrained()
}

// release decrements the counts and resumes a listener that was held back.
func (sh *shard) release() {
	sh.conns.Add(-1)
	sh.s.open.Add(-1)
	from := sh
	if sh.s.o.Spread != ReusePort {
		from = sh.s.shards[0]
	}
	if from.heldBack.CompareAndSwap(true, false) {
		if from == sh {
			from.ln.Resume()
			return
		}
		_ = from.st.sockets.L.Internal().Post(atclose.Drop, func() { from.ln.Resume() })
	}
}

// callDrained queues the callbacks of Drain if the last connection has ended.
func (sh *shard) callDrained() {
	for _, done := range sh.s.takeDrained() {
		sh.st.sockets.L.Internal().CallSoon(atclose.Run, done)
	}
}

// loopClosing closes the listener and the connections that were handed over to this
// loop and not served yet.
func (sh *shard) loopClosing() {
	sh.st.removeServer(sh)
	sh.stop()
	sh.mu.Lock()
	sh.loopClosed = true
	fds := sh.fds
	sh.fds = nil
	sh.mu.Unlock()
	for _, fd := range fds {
		sh.st.sockets.K.CloseFD(fd)
		sh.connLost()
	}
}
