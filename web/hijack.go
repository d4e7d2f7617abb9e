package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/transport"
)

// Hijack passes the connection to the handler, for http.Hijacker. The returned net.Conn can
// be used in tasks of the loop and on other goroutines. The reader begins with what was
// received and not read: the rest of the request's body, which cannot be read from the
// request any more, and what follows it. If the handler panics, the connection is closed.
//
// On a connection of HTTP/2 only a CONNECT request can be hijacked: the net.Conn is its stream,
// which outlives the handler. The response that the handler has written is sent first.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.enter(); err != nil {
		return nil, nil, err
	}
	defer w.leave()
	if w.s != nil && w.x.method != "CONNECT" {
		return nil, nil, errNotTunnel
	}
	if w.phase == draftHeaded || w.phase == draftCommitted {
		if err := w.flush(nil); err != nil {
			return nil, nil, err
		}
	}
	h := &hijackedConn{st: w.x.st}
	early := 0
	if err := w.x.st.do(func() error {
		var err error
		if w.s != nil {
			err = w.hijackStream(h)
		} else {
			err = h.take(w)
		}
		early = len(h.buf)
		return err
	}); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(h)
	r.Peek(min(early, r.Size()))
	return h, bufio.NewReadWriter(r, bufio.NewWriter(h)), nil
}

// hijackedConn is a connection that a handler has taken: a net.Conn for tasks and
// goroutines on top of the transport's connection. Returning the socket itself was
// tempting, but TLS and simulated networks have none.
//
//	serving ──Drain──▶ draining: OnShutdown's function runs, if there is one;
//	   │                  │       otherwise the server forgets the connection
//	   └──────────────────┴──Close, panic, lost──▶ err is set
//
// Bytes arrive in buf until err is set, and Read returns err after them.
type hijackedConn struct {
	st            *loopState
	tc            wire
	local, remote net.Addr

	mu    sync.Mutex
	buf   []byte // received and not read; guarded by mu
	err   error  // after that; guarded by mu
	late  bool   // the read deadline has passed; guarded by mu
	sets  uint64 // how many calls have set deadlines; guarded by mu
	unset int    // calls that the loop has not executed yet; guarded by mu

	// Loop goroutine only.
	paused          bool
	reader          *waiter       // a Read that waits
	writers         []func(error) // Writes that wait until the peer has caught up
	readAt, writeAt deadline
	draining, lost  bool
	onShutdown      func() // starts the function of OnShutdown; nil for most
}

// take takes the connection over, on the loop.
func (h *hijackedConn) take(w *response) error {
	if err := w.detach(); err != nil {
		return err
	}
	c := w.x.c
	h.tc = c.tc
	h.local, h.remote = c.tc.LocalAddr(), c.tc.RemoteAddr()
	h.paused = c.is(readsPaused)
	h.readAt.expires = h.readTooLate
	h.writeAt.expires = func() { h.wakeWriters(os.ErrDeadlineExceeded) }
	h.buf = c.surrender(w.x.body)
	if c.is(peerEOF) {
		h.err = io.EOF
	}
	c.tc.SetProtocol(h)
	if c.is(drainSeen) {
		h.Draining(c.tc)
	}
	return nil
}

// surrender returns what was received and not read, of the request's body and after it.
func (c *conn) surrender(b *body) (rest []byte) {
	if c.partial() {
		rest = b.surrender(c.extra.parser)
		c.dropParser()
	} else {
		rest = b.surrender(nil)
	}
	if c.extra != nil {
		rest = append(rest, c.extra.kept...)
		c.extra.kept = nil
	}
	if c.is(parsing) { // what follows the request that is being started
		rest = append(rest, c.st.rest...)
		c.st.rest = nil
	}
	return rest
}

// hijackedRest is how long a peer may take nothing of what is left after Close, if the server
// has no write time-out.
const hijackedRest = 5 * time.Second

// close ends the waits and closes the connection when what was written is sent, on the loop.
func (h *hijackedConn) close() error {
	h.fail(net.ErrClosed)
	h.wakeWriters(net.ErrClosed)
	limit := h.st.writeTimeout
	if limit <= 0 {
		limit = hijackedRest
	}
	h.tc.SetWriteTimeout(limit)
	return h.tc.Close()
}

// ConnectionMade is not called for a connection that was taken over.
func (h *hijackedConn) ConnectionMade(*transport.Conn) {}

// DataReceived keeps data for Read, up to a limit.
func (h *hijackedConn) DataReceived(tc *transport.Conn, data []byte) {
	h.mu.Lock()
	h.buf = append(h.buf, data...)
	full := len(h.buf) >= bodyLimit
	h.mu.Unlock()
	if full && !h.paused {
		h.paused = true
		tc.PauseReading()
	}
	h.wakeReader(nil)
}

// EOFReceived makes Read return io.EOF.
func (h *hijackedConn) EOFReceived(*transport.Conn) bool {
	h.fail(io.EOF)
	return true
}

// ConnectionLost ends the waits with err.
func (h *hijackedConn) ConnectionLost(_ *transport.Conn, err error) {
	if err == nil {
		err = net.ErrClosed
	}
	h.lost, h.onShutdown = true, nil
	h.stopTimers()
	h.fail(err)
	h.wakeWriters(err)
}

// stopTimers stops the timers of the deadlines. A timer would keep the connection in memory.
func (h *hijackedConn) stopTimers() {
	h.readAt.timer.Cancel()
	h.writeAt.timer.Cancel()
}

// PauseWriting does nothing: Write checks how much is unsent.
func (h *hijackedConn) PauseWriting(*transport.Conn) {}

// ResumeWriting ends the waits of Write.
func (h *hijackedConn) ResumeWriting(*transport.Conn) { h.wakeWriters(nil) }

func (h *hijackedConn) fail(err error) {
	h.mu.Lock()
	if h.err == nil {
		h.err = err
	}
	h.mu.Unlock()
	h.wakeReader(nil)
}

func (h *hijackedConn) wakeReader(err error) {
	if w := h.reader; w != nil {
		h.reader = nil
		w.done(err)
	}
}

func (h *hijackedConn) readTooLate() {
	h.mu.Lock()
	h.late = true
	h.mu.Unlock()
	h.wakeReader(os.ErrDeadlineExceeded)
}

func (h *hijackedConn) wakeWriters(err error) {
	waiting := h.writers
	h.writers = nil
	for _, wake := range waiting {
		wake(err)
	}
}

// Read reads what was received, and waits if that is nothing.
func (h *hijackedConn) Read(p []byte) (int, error) {
	for {
		if n, err := h.get(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := h.st.awaitIn(&h.reader, "a hijacked connection", h.wait); err != nil {
			return 0, err
		}
	}
}

// get is Read without waiting.
func (h *hijackedConn) get(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.unset > 0 && !h.st.l.Owns():
		return 0, nil // only the loop knows whether that deadline has passed
	case h.late:
		return 0, os.ErrDeadlineExceeded
	case len(h.buf) == 0:
		return 0, h.err
	}
	n := copy(p, h.buf)
	if h.buf = h.buf[n:]; len(h.buf) == 0 {
		h.buf = nil
	}
	return n, nil
}

// wait makes w wait until there is something to get, on the loop.
func (h *hijackedConn) wait(w *waiter) {
	h.mu.Lock()
	ready := len(h.buf) > 0 || h.err != nil
	h.mu.Unlock()
	switch {
	case h.readAt.passed(h.st.l):
		w.done(os.ErrDeadlineExceeded)
	case ready:
		w.done(nil)
	case h.reader != nil:
		w.done(errTwoReaders)
	default:
		h.reader = w
		if h.paused {
			h.paused = false
			h.tc.ResumeReading()
		}
	}
}

// Write sends p and waits until the peer has caught up. The n bytes that it reports are
// sent even if the wait fails.
func (h *hijackedConn) Write(p []byte) (n int, err error) {
	err = h.st.await("the client to read", func(done func(error)) {
		if h.writeAt.passed(h.st.l) {
			done(os.ErrDeadlineExceeded)
			return
		}
		var err error
		if n, err = h.tc.Write(p); err != nil {
			done(err)
			return
		}
		if h.tc.Unsent() <= highWater {
			done(nil)
			return
		}
		h.writers = append(h.writers, done)
		// The transport does not report a pause that ends within the same turn.
		h.tc.AfterFlush(func(err error) {
			if err == nil {
				h.wakeWriters(nil)
			}
		})
	})
	return n, err
}

// Close ends Reads and Writes that wait, sends what was written, and closes the connection.
// A peer that takes none of it for the server's WriteTimeout, or for 5 seconds if there is
// none, is cut off.
func (h *hijackedConn) Close() error { return h.st.do(h.close) }

// CloseWrite closes the sending side after what was written, like that of net.TCPConn.
func (h *hijackedConn) CloseWrite() error { return h.st.do(h.tc.WriteEOF) }

// LocalAddr returns the server's address.
func (h *hijackedConn) LocalAddr() net.Addr { return h.local }

// RemoteAddr returns the client's address.
func (h *hijackedConn) RemoteAddr() net.Addr { return h.remote }

// SetDeadline sets both deadlines.
func (h *hijackedConn) SetDeadline(t time.Time) error {
	return h.setDeadlines(t, &h.readAt, &h.writeAt)
}

// SetReadDeadline makes reads fail from t on.
func (h *hijackedConn) SetReadDeadline(t time.Time) error { return h.setDeadlines(t, &h.readAt) }

// SetWriteDeadline makes writes fail from t on.
func (h *hijackedConn) SetWriteDeadline(t time.Time) error { return h.setDeadlines(t, &h.writeAt) }

// setDeadlines does not wait for the loop: the caller may hold a lock that a task waits
// for. The last call counts, in whatever order the loop executes the calls.
func (h *hijackedConn) setDeadlines(t time.Time, all ...*deadline) error {
	h.mu.Lock()
	h.sets++
	h.unset++
	nth := h.sets
	h.mu.Unlock()
	l := h.st.l
	set := func() {
		for _, d := range all {
			if nth > d.nth {
				d.nth = nth
				d.set(l, t)
			}
		}
		if h.lost {
			h.stopTimers()
		}
		h.mu.Lock()
		h.unset--
		h.late = h.readAt.passed(l)
		h.mu.Unlock()
	}
	if l.Owns() {
		set()
	} else if l.Internal().Post(atclose.Drop, set) != nil {
		return http.ErrServerClosed
	}
	return nil
}

var errTwoReaders = errors.New("web: two reads of a hijacked connection at once")

// Draining is called when the server drains. Like net/http, the server does not wait for a
// hijacked connection, which may be used for hours. It waits for one with an OnShutdown
// function, because that closes the connection.
func (h *hijackedConn) Draining(*transport.Conn) {
	h.draining = true
	if h.onShutdown == nil {
		h.tc.LeaveServer()
		return
	}
	h.onShutdown()
	h.onShutdown = nil
}

// OnShutdown registers fn to be called when the server drains, or now if it drains already:
// in a task if OnShutdown is called in one, otherwise on a goroutine. It is for protocols
// with a closing handshake. fn must close the connection. The last call counts.
func (h *hijackedConn) OnShutdown(fn func()) {
	if fn == nil {
		panic("web: OnShutdown with a nil function")
	}
	st := h.st
	set := func(start func()) {
		if h.onShutdown = start; h.draining {
			h.Draining(nil)
		}
	}
	if st.l.Owns() {
		set(func() {
			st.tasks().GoWith(spindle.TaskOptions{Name: "OnShutdown"}, func(context.Context) error {
				fn()
				return nil
			})
		})
		return
	}
	onGoroutine := func() { st.l.Internal().Kernel().Start(fn) }
	_ = st.l.Internal().Post(atclose.Drop, func() { set(onGoroutine) }) // the end of the loop ends the connection
}
