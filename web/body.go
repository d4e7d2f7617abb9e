package web

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/http1"
)

// body is a request's body: the loop appends what is received, the handler reads it. It has
// three phases that change independently.
//
//	what the loop receives:    coming ──End──▶ whole
//	                             └──error, EOF or time-out──▶ cut
//
//	what the handler does:     unread ──Read returns io.EOF──▶ atEnd
//	                             └──Close, return, skip──▶ closed
//
//	what the client waits for: nothing
//	                           continueAwaited ──first Read──▶ continueSent
//
// A request without a body has a nil body. The unexported methods that the loop calls for
// every request accept nil.
type body struct {
	x      *exchange
	s      *h2Stream // nil for HTTP/1.1
	length int64     // as declared; negative if the body is chunked

	mu        sync.Mutex
	buf       []byte  // received; guarded by mu
	at        int     // how much of buf was read; guarded by mu
	err       error   // of Read after buf: io.EOF if all has come; guarded by mu
	total     int64   // bytes received; guarded by mu
	skipUntil int64   // the total at which skip gives up; guarded by mu
	full      bool    // the loop has paused reading because of buf; guarded by mu
	credit    int     // bytes of a stream that were read, and not reported to it; guarded by mu
	arrival   arrival // guarded by mu
	use       bodyUse // guarded by mu

	trailers http.Header // of the request: declared keys, later the fields; nil if not chunked
	trailer  http.Header // received, and not in trailers yet; guarded by mu

	awaits atomic.Uint32 // one of the continue constants

	reader *waiter // a Read that waits; loop goroutine only
}

// arrival is how far a body has come.
type arrival uint8

const (
	bodyComing arrival = iota
	bodyWhole
	bodyCut // the rest will never come
)

// bodyUse is what the handler has done with a body.
type bodyUse uint8

const (
	bodyUnread bodyUse = iota
	bodyAtEnd          // Read has returned io.EOF
	bodyClosed         // what is received is dropped
)

// What a client does that may send "Expect: 100-continue".
const (
	continueNone    uint32 = iota // sends the body at once
	continueAwaited               // waits for a 100 before it sends the body
	continueSent                  // was sent a 100
)

// bodyLimit is how much is received ahead of the handler.
const bodyLimit = 64 << 10

// creditStep is how much a handler reads of a stream before the loop is told, which then lets
// the client send more. It is less than the smallest window.
const creditStep = 32 << 10

func newBody(x *exchange, p *http1.RequestParser) *body {
	b := &body{x: x, length: p.Length()}
	if p.ExpectsContinue() {
		b.awaits.Store(continueAwaited)
	}
	if p.Chunked() {
		b.trailers = make(http.Header)
		p.DeclareTrailers(b.trailers)
	}
	return b
}

// push appends data, on the loop. It reports whether reading should pause.
func (b *body) push(data []byte) (full bool) {
	b.mu.Lock()
	b.total += int64(len(data))
	if b.use == bodyClosed {
		tooLong := b.total > b.skipUntil
		b.mu.Unlock()
		if tooLong {
			b.wakeReader()
		}
		return false
	}
	if b.at > len(b.buf)/2 { // otherwise a reader that never catches up keeps all that it has read
		b.buf, b.at = b.buf[:copy(b.buf, b.buf[b.at:])], 0
	}
	b.buf = appendLean(b.buf, data)
	full = len(b.buf)-b.at >= bodyLimit
	b.full = b.full || full
	b.mu.Unlock()
	b.wakeReader()
	return full
}

// end is called on the loop when the whole body has come.
func (b *body) end(p *http1.RequestParser) {
	if b == nil {
		return
	}
	if p.FieldCount() > 0 {
		trailer := make(http.Header)
		p.AddTo(trailer)
		b.mu.Lock()
		b.trailer = trailer
		b.mu.Unlock()
	}
	b.fail(io.EOF)
}

// finish is end for a stream.
func (b *body) finish() { b.fail(io.EOF) }

// discard fails the body and drops what was not read, on the loop.
func (b *body) discard(err error) {
	if b == nil {
		return
	}
	b.mu.Lock()
	if b.err == nil {
		b.dropBuffer()
	}
	b.mu.Unlock()
	b.fail(err)
}

// fail makes Read return err after what was received, on the loop. The first error counts.
func (b *body) fail(err error) {
	if b == nil {
		return
	}
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	if b.arrival == bodyComing {
		b.arrival = bodyCut
		if err == io.EOF {
			b.arrival = bodyWhole
		}
	}
	b.mu.Unlock()
	b.wakeReader()
}

// tooMuchLeft reports whether the rest of the body will never come, or is too long to be
// read only to reach the next request.
func (b *body) tooMuchLeft() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.arrival == bodyCut || b.length-b.taken() > skipLimit
}

// skip drops the rest of a chunked body. It waits like Read, and reports whether the body
// came to its end: not if the body fails, or if more than skipLimit bytes come.
func (b *body) skip() bool {
	b.mu.Lock()
	b.drop()
	wait := b.arrival == bodyComing && b.total <= b.skipUntil
	b.mu.Unlock()
	if wait && b.x.st.awaitIn(&b.reader, "the end of a request body", b.waitEnd) != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.arrival == bodyWhole && b.total <= b.skipUntil
}

// taken returns how many bytes the handler has read. The caller holds mu.
func (b *body) taken() int64 {
	if b.use == bodyClosed {
		return b.skipUntil - skipLimit
	}
	return b.total - int64(len(b.buf)-b.at)
}

// unreadBytes returns how many bytes were received that the handler has not read.
func (b *body) unreadBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.taken()
}

// drop drops what was not read and what is still to come. The caller holds mu.
func (b *body) drop() {
	b.skipUntil = b.taken() + skipLimit
	b.dropBuffer()
	if b.use == bodyUnread {
		b.use = bodyClosed
	}
}

// dropBuffer drops what was not read. The caller holds mu. Reads copy, so another body may use the memory.
func (b *body) dropBuffer() {
	giveLean(b.buf)
	b.buf, b.at = nil, 0
}

// waitEnd makes w wait until there is nothing more to skip, on the loop.
func (b *body) waitEnd(w *waiter) {
	b.mu.Lock()
	over := b.arrival != bodyComing || b.total > b.skipUntil
	b.mu.Unlock()
	switch {
	case over:
		w.done(nil)
	case b.reader != nil:
		w.done(errTwoBodyReaders)
	default:
		b.reader = w
		_ = b.resume()
	}
}

// wakeReader ends the wait of a Read, on the loop.
func (b *body) wakeReader() {
	if b == nil || b.reader == nil {
		return
	}
	w := b.reader
	b.reader = nil
	w.done(nil)
}

// close closes the body when the handler has returned.
func (b *body) close() {
	if b != nil {
		b.Close()
	}
}
