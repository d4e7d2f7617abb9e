package web

import (
	"bytes"
	"io"
	"net/http"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/loop"
)

// h2Stream is a stream of an HTTP/2 connection: a request and its response. Its phases are
// those of http2.Stream. Loop goroutine only.
type h2Stream struct {
	http2.Stream
	h    *h2Conn
	x    *exchange       // nil if a lean handler answers
	lean *leanBody       // a body that a lean handler waits for
	d    *streamDeferral // of a request that is answered later

	tunnel *hijackedConn // nil unless the stream was hijacked

	pending  []byte      // of the response's body, that cannot be sent yet
	at       int         // how much of pending was sent
	lent     bool        // pending belongs to a caller that waits
	leanBuf  bool        // pending is a buffer of a lean response
	trailers []byte      // the encoded fields that follow pending
	writer   func(error) // called when pending was sent
	cause    error       // why the stream has ended early
	over     bool        // the response is complete: its end follows pending
	half     bool        // a tunnel that still receives: its end does not reset it
	queued   bool        // in h2Conn.waiting
	mark     uint32      // h2Conn.sent when the stream was found stalled

	bodyTimer, stallTimer loop.Timer
}

// streamExchange is an exchange with its stream, in one object.
type streamExchange struct {
	exchange
	stream h2Stream
}

// stream returns the stream of an exchange that has not finished, nil for HTTP/1.1.
func (x *exchange) stream() *h2Stream {
	if x.w.draft == nil {
		return nil
	}
	return x.w.s
}

// ownerOf returns the h2Stream that s is part of.
func ownerOf(s *http2.Stream) *h2Stream { return s.Owner.(*h2Stream) }

// data handles a piece of a request's body.
func (s *h2Stream) data(p []byte) {
	switch {
	case s.tunnel != nil:
		s.tunnel.receive(p)
	case s.lean != nil:
		s.collect(p)
		s.h.fc.Consume(&s.Stream, len(p))
	case s.d != nil:
		s.d.bodyData(p)
	case s.x == nil || s.x.body == nil:
		s.h.fc.Consume(&s.Stream, len(p))
	default:
		s.bodyData(p)
	}
}

// bodyData passes a piece of the body to the handler. What the handler does not want is
// consumed at once.
func (s *h2Stream) bodyData(p []byte) {
	b := s.x.body
	if limit := s.x.st.sv.server.MaxBodyBytes; limit > 0 && b.total+int64(len(p)) > limit {
		b.fail(&http.MaxBytesError{Limit: limit})
		s.h.fc.Consume(&s.Stream, len(p))
		return
	}
	if b.closed() {
		s.h.fc.Consume(&s.Stream, len(p))
		return
	}
	b.push(p)
}

// end handles the end of a request; h has its trailers.
func (s *h2Stream) end(h *http2.Header) {
	s.bodyTimer.Cancel()
	switch {
	case s.tunnel != nil:
		s.tunnel.fail(io.EOF)
	case s.lean != nil:
		s.collected()
	case s.d != nil:
		s.d.bodyEnds()
	case s.x != nil:
		if b := s.x.body; b != nil {
			if len(h.Fields) > 0 {
				trailer := make(http.Header, len(h.Fields))
				addFields(trailer, h)
				b.mu.Lock()
				b.trailer = trailer
				b.mu.Unlock()
			}
			b.finish()
		}
		s.h.startNow(s.x)
	}
}

// gone ends the stream early: the client has reset it, or the connection has ended.
func (s *h2Stream) gone(cause error) {
	s.stop(cause)
	if s.tunnel != nil {
		s.tunnel.ConnectionLost(nil, cause)
	}
	if s.d != nil {
		s.d.lost(cause)
		return
	}
	x := s.x
	if x == nil || x.w.draft == nil {
		return
	}
	x.body.discard(cause)
	x.cancel(cause)
}

// stop drops what cannot be sent any more.
func (s *h2Stream) stop(cause error) {
	if s.cause == nil {
		s.cause = cause
	}
	s.bodyTimer.Cancel()
	s.stallTimer.Cancel()
	s.dropPending()
	s.trailers = nil
	s.wake(cause)
	s.h.unqueue(s)
}

// dropPending forgets what was sent, or cannot be.
func (s *h2Stream) dropPending() {
	if s.leanBuf {
		giveLean(s.pending)
	}
	s.pending, s.at, s.lent, s.leanBuf = nil, 0, false, false
}

// ended returns why a stream that is closed has ended.
func (s *h2Stream) ended() error {
	if s.cause != nil {
		return s.cause
	}
	return s.h.c.cause()
}

func (s *h2Stream) wake(err error) {
	if done := s.writer; done != nil {
		s.writer = nil
		done(err)
	}
}

// reset ends the stream with an error.
func (s *h2Stream) reset(code http2.Code, cause error) {
	s.h.touch()
	s.h.fc.Reject(&s.Stream, code)
	s.stop(cause)
}

// bodyTimedOut is called when a request's body did not come in time. A client that waits for
// the handler, or for a 100, gets more time.
func (s *h2Stream) bodyTimedOut() {
	x := s.x
	if s.Closed() || !s.Receiving() {
		return
	}
	if s.d != nil {
		s.d.bodyTimedOut()
		return
	}
	if x != nil && x.body != nil && (s.Unread() > 0 || x.body.awaits.Load() == continueAwaited) {
		s.timeBody()
		return
	}
	s.h.touch()
	s.h.fc.Reject(&s.Stream, http2.Cancel)
	s.gone(errTimeout)
	s.h.settle()
}

// timeBody limits the time for the body.
func (s *h2Stream) timeBody() {
	if d := s.h.c.st.bodies.after; d > 0 && s.Receiving() {
		s.bodyTimer = s.h.c.st.l.CallLater(d, s.bodyTimedOut)
	}
}

// writeHead sends a header. It is the end of the response if end is set.
func (s *h2Stream) writeHead(block []byte, end bool) {
	s.h.touch()
	s.h.fc.SendHead(&s.Stream, block, end)
}

// write sends p, or as much of it as windows and the peer allow, and queues the rest.
func (s *h2Stream) write(p []byte) {
	if s.Closed() {
		return
	}
	if s.at == len(s.pending) {
		p = p[s.send(p):]
	}
	if len(p) == 0 {
		return
	}
	s.keep()
	if s.at > 0 {
		s.pending = s.pending[:copy(s.pending, s.pending[s.at:])]
		s.at = 0
	}
	s.pending = append(s.pending, p...)
	s.h.queue(s)
}

// lend is write without a copy. The caller waits until p was sent, or calls keep.
func (s *h2Stream) lend(p []byte) {
	if s.Closed() || s.at < len(s.pending) {
		s.write(p)
		return
	}
	if p = p[s.send(p):]; len(p) > 0 {
		s.pending, s.at, s.lent = p[:len(p):len(p)], 0, true
		s.h.queue(s)
	}
}

// keep copies the rest of what was lent.
func (s *h2Stream) keep() {
	if s.lent {
		s.pending, s.at, s.lent = bytes.Clone(s.pending[s.at:]), 0, false
	}
}

// finish ends the response: with p, and with trailers if there are any. It keeps neither.
func (s *h2Stream) finish(p, trailers []byte) {
	if s.Closed() {
		return
	}
	s.over = true
	if len(trailers) > 0 {
		s.trailers = trailers
	}
	if s.write(p); s.at < len(s.pending) {
		s.trailers = bytes.Clone(s.trailers)
		return
	}
	s.answered()
	s.trailers = nil
}

// answered sends the end of the response, unless the last data had it. The client need not
// send the rest of its body then.
func (s *h2Stream) answered() {
	fc := s.h.fc
	s.h.touch()
	switch {
	case !s.Sending():
	case len(s.trailers) > 0:
		fc.SendHead(&s.Stream, s.trailers, true)
	default:
		fc.SendData(&s.Stream, nil, true)
	}
	s.bodyTimer.Cancel()
	if !s.Closed() && !s.half {
		fc.Reject(&s.Stream, http2.NoError)
	}
}

// copyLimit is the largest piece that is copied to the frames of a turn. A larger one is sent
// at once, from where it is.
const copyLimit = 8 << 10

// send sends as much of p as windows and the peer allow. It returns how much that is.
func (s *h2Stream) send(p []byte) (sent int) {
	h := s.h
	for sent < len(p) && h.c.output != outputHeld {
		n := min(len(p)-sent, h.fc.Room(&s.Stream), highWater)
		if n == 0 {
			break
		}
		end := s.over && sent+n == len(p) && len(s.trailers) == 0
		h.touch()
		if n <= copyLimit {
			h.fc.SendData(&s.Stream, p[sent:sent+n], end)
		} else {
			s.sendLarge(p[sent:sent+n], end)
		}
		sent += n
		h.sent += uint32(n)
	}
	return sent
}

// sendLarge sends p, after the frames of this turn, without copying it.
func (s *h2Stream) sendLarge(p []byte, end bool) {
	h, st := s.h, s.h.c.st
	vec := append(st.vec[:0], h.fc.Out)
	heads := st.dataHeads[:0]
	for len(p) > 0 {
		n := min(len(p), h.fc.MaxFrame())
		from := len(heads)
		heads = h.fc.AppendDataHead(heads, &s.Stream, n, end && n == len(p))
		vec = append(vec, heads[from:], p[:n])
		p = p[n:]
	}
	h.c.tc.Writev(vec)
	clear(vec)
	st.vec, st.dataHeads = vec[:0], heads[:0]
	h.fc.Out = h.fc.Out[:0]
	if end {
		h.fc.EndData(&s.Stream)
	}
	if h.c.tc.Unsent() > highWater {
		h.c.holdWrites()
	}
}
