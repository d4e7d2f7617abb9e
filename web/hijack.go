package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/transport"
)

// Hijack gives the connection to the handler, for http.Hijacker. It waits as the
// request's body does: as a task in tasks, as a goroutine elsewhere. The reader begins
// with what was received and not read: the rest of the request's body, which cannot be
// read from the request any more, and what follows it. If the handler panics, the
// connection is closed.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.enter(); err != nil {
		return nil, nil, err
	}
	defer w.leave()
	if w.status != 0 && !w.hijacked {
		if err := w.flush(nil); err != nil {
			return nil, nil, err
		}
	}
	h := &hijacked{st: w.x.st}
	early := 0
	if err := w.x.st.do(func() error {
		err := h.take(w)
		early = len(h.buf)
		return err
	}); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(h)
	r.Peek(min(early, r.Size()))
	return h, bufio.NewReadWriter(r, bufio.NewWriter(h)), nil
}

// hijacked is a connection that a handler has taken: a net.Conn for tasks and
// goroutines on one in the callback model. To hand out the socket itself was
// tempting, but TLS and simulated networks have none.
type hijacked struct {
	st            *loopState
	tc            *transport.Conn
	local, remote net.Addr

	mu    sync.Mutex
	buf   []byte // received and not read; guarded by mu
	err   error  // after that; guarded by mu
	late  bool   // the deadline for reading has passed; guarded by mu
	sets  uint64 // how many deadlines were asked for; guarded by mu
	unset int    // those of them that are on their way to the loop; guarded by mu

	// Loop goroutine only.
	paused          bool
	reading         *waiter       // who waits for data
	writing         []func(error) // who wait for room
	readAt, writeAt deadline
	drains          bool   // the server does
	onShutdown      func() // starts what was given to OnShutdown; nil for most
}

// take takes the connection over, on the loop.
func (h *hijacked) take(w *response) error {
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
	if c.is(ended) {
		h.err = io.EOF
	}
	h.tc.SetProtocol(h)
	if c.is(drains) {
		h.Draining(h.tc)
	}
	return nil
}

// surrender returns what was received and not read, of the request's body and after it.
func (c *conn) surrender(b *body) (unread []byte) {
	if c.within() {
		unread = b.surrender(c.more.parser)
		c.dropParser()
	} else {
		unread = b.surrender(nil)
	}
	if c.more != nil {
		unread = append(unread, c.more.pending...)
		c.more.pending = nil
	}
	if c.is(consuming) { // the rest of what is being parsed
		unread = append(unread, c.st.rest...)
		c.st.rest = nil
	}
	return unread
}

// abandon closes a connection whose handler has panicked after it took it, on the loop.
func (h *hijacked) abandon(c *conn) {
	h.fail(net.ErrClosed)
	c.timeWrites()
	c.tc.Close()
}

// ConnectionMade is not called for a connection that was taken over.
func (h *hijacked) ConnectionMade(*transport.Conn) {}

// DataReceived keeps what comes, up to a limit.
func (h *hijacked) DataReceived(tc *transport.Conn, data []byte) {
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

// EOFReceived is the peer's end.
func (h *hijacked) EOFReceived(*transport.Conn) bool {
	h.fail(io.EOF)
	return true
}

// ConnectionLost is the end.
func (h *hijacked) ConnectionLost(_ *transport.Conn, err error) {
	if err == nil {
		err = net.ErrClosed
	}
	h.readAt.timer.Cancel()
	h.writeAt.timer.Cancel()
	h.fail(err)
	h.wakeWriters(err)
}

// PauseWriting is of no interest: Write looks for itself.
func (h *hijacked) PauseWriting(*transport.Conn) {}

// ResumeWriting lets writers go on.
func (h *hijacked) ResumeWriting(*transport.Conn) { h.wakeWriters(nil) }

func (h *hijacked) fail(err error) {
	h.mu.Lock()
	if h.err == nil {
		h.err = err
	}
	h.mu.Unlock()
	h.wakeReader(nil)
}

func (h *hijacked) wakeReader(err error) {
	if w := h.reading; w != nil {
		h.reading = nil
		w.done(err)
	}
}

func (h *hijacked) readTooLate() {
	h.mu.Lock()
	h.late = true
	h.mu.Unlock()
	h.wakeReader(os.ErrDeadlineExceeded)
}

func (h *hijacked) wakeWriters(err error) {
	waiting := h.writing
	h.writing = nil
	for _, wake := range waiting {
		wake(err)
	}
}

// Read reads what has come, and waits if that is nothing.
func (h *hijacked) Read(p []byte) (int, error) {
	for {
		if n, err := h.get(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := h.st.awaitIn(&h.reading, "a hijacked connection", h.wait); err != nil {
			return 0, err
		}
	}
}

// get is Read without waiting.
func (h *hijacked) get(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.unset > 0 && !h.st.l.Owns():
		return 0, nil // the loop knows whether that one has passed
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

// wait has w told when there is something to get, on the loop.
func (h *hijacked) wait(w *waiter) {
	h.mu.Lock()
	ready := len(h.buf) > 0 || h.err != nil
	h.mu.Unlock()
	switch {
	case h.readAt.passed(h.st.l):
		w.done(os.ErrDeadlineExceeded)
	case ready:
		w.done(nil)
	case h.reading != nil:
		w.done(errTwoReaders)
	default:
		h.reading = w
		if h.paused {
			h.paused = false
			h.tc.ResumeReading()
		}
	}
}

// Write sends p, and waits until there is room for more. All that it tells of is sent,
// also if it does not wait to the end.
func (h *hijacked) Write(p []byte) (n int, err error) {
	err = h.st.await("room to write", func(done func(error)) {
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
		h.writing = append(h.writing, done)
		// For a pause that is over before transport tells of it.
		h.tc.AfterFlush(func(err error) {
			if err == nil {
				h.wakeWriters(nil)
			}
		})
	})
	return n, err
}

// Close sends what was written, and ends the connection.
func (h *hijacked) Close() error {
	return h.st.do(func() error {
		h.fail(net.ErrClosed)
		return h.tc.Close()
	})
}

// CloseWrite ends the sending side behind what was written, as of a net.TCPConn.
func (h *hijacked) CloseWrite() error { return h.st.do(h.tc.WriteEOF) }

// LocalAddr is the address of this end.
func (h *hijacked) LocalAddr() net.Addr { return h.local }

// RemoteAddr is the address of the peer.
func (h *hijacked) RemoteAddr() net.Addr { return h.remote }

// SetDeadline sets both deadlines.
func (h *hijacked) SetDeadline(t time.Time) error { return h.setDeadlines(t, &h.readAt, &h.writeAt) }

// SetReadDeadline has reads fail from t on.
func (h *hijacked) SetReadDeadline(t time.Time) error { return h.setDeadlines(t, &h.readAt) }

// SetWriteDeadline has writes fail from t on.
func (h *hijacked) SetWriteDeadline(t time.Time) error { return h.setDeadlines(t, &h.writeAt) }

// setDeadlines does not wait for the loop: who calls it may hold a lock that a task
// wants. The last call counts, whichever comes to the loop first.
func (h *hijacked) setDeadlines(t time.Time, all ...*deadline) error {
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
		h.mu.Lock()
		h.unset--
		h.late = h.readAt.passed(l)
		h.mu.Unlock()
	}
	if l.Owns() {
		set()
	} else if l.Internal().Post(loopcore.DropAtClose, set) != nil {
		return ErrServerClosed
	}
	return nil
}

var errTwoReaders = errors.New("web: two reads of a hijacked connection at once")

// Draining is called when the server drains. As in net/http, the server does not wait for
// a hijacked connection, which may be used for hours. One whose owner has asked to be told
// (OnShutdown) is waited for, because it is about to be closed.
func (h *hijacked) Draining(tc *transport.Conn) {
	h.drains = true
	if h.onShutdown == nil {
		tc.LeaveServer()
		return
	}
	h.onShutdown()
	h.onShutdown = nil
}

// OnShutdown calls fn when the server drains, at once if it does already: in a task if
// OnShutdown was called in one, otherwise on a goroutine. A connection of this package's
// Hijack has this method for protocols that end a conversation in their own words. fn must
// see to it that the connection is closed. The last call counts.
func (h *hijacked) OnShutdown(fn func()) {
	if fn == nil {
		panic("web: OnShutdown with a nil function")
	}
	st := h.st
	set := func(start func()) {
		if h.onShutdown = start; h.drains {
			h.Draining(h.tc)
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
	_ = st.l.Internal().Post(loopcore.DropAtClose, func() { set(onGoroutine) }) // the end of the loop ends the connection
}
