package web

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/http1"
)

// body is a request's body: the loop puts in what comes, the handler takes it out. A
// request without one has nil, whose end and failures are nothing.
type body struct {
	x      *exchange
	length int64 // as declared; negative if the body is chunked

	mu    sync.Mutex
	buf   []byte // received, from at on not read; guarded by mu
	at    int
	err   error   // after that: io.EOF if all has come; guarded by mu
	total int64   // bytes received; guarded by mu
	most  int64   // the total at which skip gives up; guarded by mu
	unfed bool    // the loop has stopped to read because buf is full; guarded by mu
	done  bool    // what comes is not wanted; guarded by mu
	eof   bool    // the handler has read the end; guarded by mu
	state arrival // guarded by mu

	trailers http.Header // the request's: the keys declared, later the fields; nil if not chunked
	trailer  http.Header // that has come and is not in trailers yet; guarded by mu

	asked atomic.Bool // the client was told to go on

	reading *waiter // who waits for more; loop goroutine only
}

// arrival is how far a body has come.
type arrival uint8

const (
	coming arrival = iota
	whole
	cut // the rest will never come
)

// bodyLimit is how much is received ahead of the handler.
const bodyLimit = 64 << 10

func newBody(x *exchange, p *http1.RequestParser) *body {
	b := &body{x: x, length: p.Length()}
	if p.Chunked() {
		b.trailers = make(http.Header)
		p.DeclareTrailers(b.trailers)
	}
	return b
}

// push takes more of the body, and tells whether that is enough for now.
func (b *body) push(data []byte) (full bool) {
	b.mu.Lock()
	b.total += int64(len(data))
	if b.done {
		enough := b.total > b.most
		b.mu.Unlock()
		if enough {
			b.arrived()
		}
		return false
	}
	b.buf = append(b.buf, data...)
	full = len(b.buf)-b.at >= bodyLimit
	b.unfed = b.unfed || full
	b.mu.Unlock()
	b.arrived()
	return full
}

// end is the body's, with its trailers.
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

// fail is the end of what can be read.
func (b *body) fail(err error) {
	if b == nil {
		return
	}
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	if b.state == coming {
		b.state = cut
		if err == io.EOF {
			b.state = whole
		}
	}
	b.mu.Unlock()
	b.arrived()
}

// leavesTooMuch tells whether what is left of the body is too much to be read only to
// get to the next request, or will never come.
func (b *body) leavesTooMuch() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == cut || b.length-b.taken() > skipLimit
}

// skip drops what is left of a chunked body, and reports whether it came to the end: not
// if the body fails, or if more than skipLimit bytes come. It waits as Read does.
func (b *body) skip() bool {
	b.mu.Lock()
	b.leave()
	wait := b.state == coming && b.total <= b.most
	b.mu.Unlock()
	if wait && b.x.st.awaitIn(&b.reading, "the end of a request body", b.waitEnd) != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == whole && b.total <= b.most
}

// taken is how many bytes the handler has read; under mu.
func (b *body) taken() int64 {
	if b.done {
		return b.most - skipLimit
	}
	return b.total - int64(len(b.buf)-b.at)
}

// unread is how many bytes were received that the handler has not read.
func (b *body) unread() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.taken()
}

// leave drops what was not read, and what is still to come; under mu.
func (b *body) leave() {
	b.most = b.taken() + skipLimit
	b.buf, b.at, b.done = nil, 0, true
}

// waitEnd has w told when there is nothing more to skip, on the loop.
func (b *body) waitEnd(w *waiter) {
	b.mu.Lock()
	over := b.state != coming || b.total > b.most
	b.mu.Unlock()
	switch {
	case over:
		w.done(nil)
	case b.reading != nil:
		w.done(errTwoBodyReaders)
	default:
		b.reading = w
		_ = b.feed()
	}
}

func (b *body) arrived() {
	if w := b.reading; w != nil {
		b.reading = nil
		w.done(nil)
	}
}

// close is for the handler's return: nothing more is wanted.
func (b *body) close() {
	if b != nil {
		b.Close()
	}
}

// drop wakes a goroutine that still reads when the exchange ends, on the loop.
func (b *body) drop() {
	if b != nil {
		b.arrived()
	}
}

// Read reads what has come, and waits if that is nothing.
func (b *body) Read(p []byte) (int, error) {
	if b.x.expects && !b.closed() && !b.asked.Swap(true) {
		if err := b.ask(); err != nil {
			return 0, err
		}
	}
	for {
		n, err, feed := b.take(p)
		if feed {
			_ = b.x.st.do(b.feed)
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := b.x.st.awaitIn(&b.reading, "request body", b.wait); err != nil {
			return 0, err
		}
	}
}

// take reads what is there. It tells whether the loop is to read on.
func (b *body) take(p []byte) (n int, err error, feed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = copy(p, b.buf[b.at:])
	b.at += n
	if b.at == len(b.buf) {
		b.buf, b.at = b.buf[:0], 0
		feed, b.unfed = b.unfed, false
		if n == 0 || b.err == io.EOF {
			err = b.err
		}
		b.eof = b.eof || err == io.EOF
		if err == io.EOF && b.trailer != nil {
			maps.Copy(b.trailers, b.trailer)
			b.trailer = nil
		}
	}
	return n, err, feed
}

// wait has w told when there is something to take, on the loop.
func (b *body) wait(w *waiter) {
	b.mu.Lock()
	ready := len(b.buf) > b.at || b.err != nil
	b.mu.Unlock()
	switch {
	case ready:
		w.done(nil)
	case b.reading != nil:
		w.done(errTwoBodyReaders)
	case b.x.deadlines != nil && b.x.deadlines.read.passed(b.x.st.l):
		b.x.failRead()
		w.done(nil)
	default:
		b.reading = w
	}
}

var errTwoBodyReaders = errors.New("web: two reads of a request's body at once")

// feed has the connection read on, on the loop.
func (b *body) feed() error {
	c := b.x.c
	if c.is(readsPaused) && c.x == b.x && !b.x.complete {
		c.flags &^= readsPaused
		c.tc.ResumeReading()
	}
	return nil
}

// closed reports whether Close was called, or the handler has returned.
func (b *body) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// ask tells a client that waits for it to send the body. Inside a response it would be
// taken for some of that, and after the response for the next one.
func (b *body) ask() error {
	return b.x.st.do(func() error {
		c := b.x.c
		if c.is(gone) {
			return c.cause()
		}
		if !b.x.complete && !b.x.begun && !b.closed() {
			c.tc.Write([]byte(http1.Continue))
		}
		return nil
	})
}

// surrender closes the body and returns what was received and not read of it, as it
// would come from the connection: in chunks if it did. The parser is the connection's,
// nil if the body is complete. On the loop.
func (b *body) surrender(p *http1.RequestParser) (unread []byte) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	unread = b.buf[b.at:]
	switch {
	case b.trailers == nil: // not chunked
	case p != nil:
		unread = p.AppendUnread(nil, unread)
	case !b.eof:
		unread, _ = http1.AppendLastChunk(http1.AppendChunk(nil, unread), b.trailer)
	}
	b.mu.Unlock()
	b.Close()
	b.arrived()
	return unread
}

// Close tells that the rest is not wanted.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave()
	if b.err == nil || b.err == io.EOF {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}
