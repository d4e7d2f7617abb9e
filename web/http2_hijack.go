package web

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// wire is what a hijackedConn needs of a connection. A *transport.Conn is one.
type wire interface {
	Write(p []byte) (int, error)
	Unsent() int
	AfterFlush(fn func(error))
	ResumeReading()
	WriteEOF() error
	Close() error
	SetWriteTimeout(d time.Duration)
	LeaveServer()
}

// errNotTunnel is the error of Hijack for a request that is not CONNECT.
var errNotTunnel = fmt.Errorf("web: a stream of HTTP/2 is a connection only after CONNECT: %w", errors.ErrUnsupported)

// hijackStream is Hijack for a stream: the tunnel of a CONNECT request. The response has been
// sent.
func (w *response) hijackStream(h *hijackedConn) error {
	s, x := w.s, w.x
	switch {
	case w.phase == draftTaken:
		return http.ErrHijacked
	case s.Closed():
		return s.ended()
	}
	w.phase = draftTaken
	x.deadlines.cancel()
	s.bodyTimer.Cancel()
	tc := x.c.tc
	h.tc = streamWire{s}
	h.local, h.remote = tc.LocalAddr(), tc.RemoteAddr()
	h.paused = true // so that a Read that waits makes the window wider
	h.readAt.expires = h.readTooLate
	h.writeAt.expires = func() { h.wakeWriters(os.ErrDeadlineExceeded) }
	s.tunnel = h
	if b := x.body; b != nil {
		b.mu.Lock()
		h.buf, b.buf, b.at = append([]byte(nil), b.buf[b.at:]...), nil, 0
		b.mu.Unlock()
		b.wakeReader()
	}
	if !s.Receiving() {
		h.err = io.EOF
	}
	if x.c.is(drainSeen) {
		h.Draining(nil)
	}
	return nil
}

// receive is DataReceived for a stream, which its window limits.
func (h *hijackedConn) receive(data []byte) {
	h.mu.Lock()
	h.buf = append(h.buf, data...)
	h.mu.Unlock()
	h.paused = true
	h.wakeReader(nil)
}

// streamWire is a stream as a connection. Loop goroutine only.
type streamWire struct{ s *h2Stream }

func (t streamWire) Write(p []byte) (int, error) {
	switch s := t.s; {
	case s.Closed():
		return 0, s.ended()
	case s.over || !s.Sending():
		return 0, net.ErrClosed
	default:
		s.write(p)
		return len(p), nil
	}
}

func (t streamWire) Unsent() int { return len(t.s.pending) - t.s.at }

func (t streamWire) AfterFlush(fn func(error)) { t.s.whenSent(fn) }

// ResumeReading returns the window of what was read.
func (t streamWire) ResumeReading() {
	s := t.s
	s.h.touch()
	s.h.fc.Consume(&s.Stream, s.Unread())
}

func (t streamWire) WriteEOF() error {
	s := t.s
	if s.over || !s.Sending() {
		return nil
	}
	s.half = true
	if s.over = true; s.at == len(s.pending) {
		s.h.touch()
		s.h.fc.SendData(&s.Stream, nil, true)
		s.h.settle()
	}
	return nil
}

// Close ends the stream after what was written.
func (t streamWire) Close() error {
	s := t.s
	if s.half = false; !s.Closed() {
		s.finish(nil, nil)
		s.h.settle()
	}
	return nil
}

// SetWriteTimeout does nothing: a stream has that of its server.
func (t streamWire) SetWriteTimeout(time.Duration) {}

// LeaveServer does nothing: the connection is the server's.
func (t streamWire) LeaveServer() {}
