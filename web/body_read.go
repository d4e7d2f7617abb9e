package web

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
)

// The handler's side of a body.

// Read reads what was received, and waits if that is nothing.
func (b *body) Read(p []byte) (int, error) {
	if b.awaits.Load() == continueAwaited && !b.closed() && b.awaits.CompareAndSwap(continueAwaited, continueSent) {
		if err := b.sendContinue(); err != nil {
			return 0, err
		}
	}
	for {
		n, err, resume := b.take(p)
		if resume {
			b.resumeSoon()
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := b.x.st.awaitIn(&b.reader, "request body", b.waitData); err != nil {
			return 0, err
		}
	}
}

// take reads without waiting. It reports whether the loop should resume reading.
func (b *body) take(p []byte) (n int, err error, resume bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = copy(p, b.buf[b.at:])
	b.at += n
	if b.s != nil {
		b.credit += n
		resume = b.credit >= creditStep && b.arrival == bodyComing
	}
	if b.at < len(b.buf) {
		return n, nil, resume
	}
	b.buf, b.at = b.buf[:0], 0
	resume, b.full = b.full || resume, false
	if n == 0 || b.err == io.EOF {
		err = b.err
	}
	if err == io.EOF {
		if b.use == bodyUnread {
			b.use = bodyAtEnd
		}
		if b.trailer != nil {
			maps.Copy(b.trailers, b.trailer)
			b.trailer = nil
		}
	}
	return n, err, resume
}

// waitData makes w wait until there is something to take, on the loop.
func (b *body) waitData(w *waiter) {
	b.mu.Lock()
	ready := len(b.buf) > b.at || b.err != nil
	b.mu.Unlock()
	switch {
	case ready:
		w.done(nil)
	case b.reader != nil:
		w.done(errTwoBodyReaders)
	case b.x.deadlines != nil && b.x.deadlines.read.passed(b.x.st.l):
		b.x.failRead()
		w.done(nil)
	default:
		b.reader = w
	}
}

var errTwoBodyReaders = errors.New("web: two reads of a request's body at once")

// resumeSoon makes the connection read again. A goroutine does not wait for that.
func (b *body) resumeSoon() {
	if b.x.st.l.Owns() {
		_ = b.resume()
		return
	}
	_ = b.x.st.l.Internal().Post(atclose.Drop, func() { _ = b.resume() }) // a closed loop reads nothing
}

// resume makes the connection read again, on the loop.
func (b *body) resume() error {
	if b.s != nil {
		b.mu.Lock()
		n := b.credit
		b.credit = 0
		b.mu.Unlock()
		b.s.h.touch()
		b.s.h.fc.Consume(&b.s.Stream, n)
		return nil
	}
	if b.x.receiving() {
		b.x.c.resumeReading()
	}
	return nil
}

// closed reports whether Close was called or the handler has returned.
func (b *body) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.use == bodyClosed
}

// sendContinue sends a 100 to a client that waits for it. Inside a response it would be
// taken for a part of that, and after the response for the next one.
func (b *body) sendContinue() error {
	return b.x.st.do(func() error {
		c := b.x.c
		if c.phase == connLost {
			return c.cause()
		}
		if b.s != nil {
			if b.s.Receiving() && b.s.Sending() && b.x.wire == wireSilent && !b.closed() {
				b.s.writeHead(http2.AppendStatus(nil, http.StatusContinue), false)
			}
			return nil
		}
		if b.x.receiving() && b.x.wire == wireSilent && !b.closed() {
			c.tc.Write([]byte(http1.Continue))
			if c.in == &c.st.bodies { // the time of the body begins now
				c.leave()
				c.st.bodies.add(c)
			}
		}
		return nil
	})
}

// surrender closes the body, on the loop. It returns what was received and not read as the
// connection would deliver it: in chunks if the body is chunked. The parser is the
// connection's, nil if the body is complete.
func (b *body) surrender(p *http1.RequestParser) (rest []byte) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	rest = bytes.Clone(b.buf[b.at:]) // another body may use the memory soon
	switch {
	case b.trailers == nil: // not chunked
	case p != nil:
		rest = p.AppendUnread(nil, rest)
	case b.arrival == bodyCut: // without an end, so that it does not look whole
		rest = http1.AppendChunk(nil, rest)
	case b.use != bodyAtEnd:
		rest, _ = http1.AppendLastChunk(http1.AppendChunk(nil, rest), b.trailer)
	}
	b.mu.Unlock()
	b.Close()
	b.wakeReader()
	return rest
}

// Close drops the rest of the body.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	if b.err == nil || b.err == io.EOF {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}
