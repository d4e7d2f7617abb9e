package web

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/http1"
)

// receive sets the body of a response.
func (t *trip) receive(ctx context.Context, res *http.Response) {
	b := &responseBody{t: t, res: res}
	event, data, err := b.tryNext()
	switch {
	case event == http1.Switch: // the caller owns the connection now
		if res.StatusCode == http.StatusSwitchingProtocols {
			res.ContentLength = 0 // to http.Response.Write, -1 is a body that ends with the connection
		}
		res.Body = &upgraded{wireConn: t.cc.conn, cc: t.cc, ahead: append([]byte(nil), t.cc.rest...)}
		return
	case event == http1.End:
		b.finish(nil)
		if res.Body = http.NoBody; t.req.Method != "HEAD" {
			res.ContentLength = 0
		}
		return
	}
	b.data, b.err = data, err
	res.Body = b
	if theirs := t.req.Context(); theirs != ctx && theirs.Done() != nil {
		b.stop = spindle.LoopOf(ctx).Internal().Kernel().AfterFunc(theirs, b.abort)
	}
	t.decompress(res, b)
}

// decompress makes the body one that decompresses raw, if that is what the Transport asked for.
func (t *trip) decompress(res *http.Response, raw rawBody) {
	if t.unzip && strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip") {
		res.Header.Del("Content-Encoding")
		res.Header.Del("Content-Length")
		res.ContentLength = -1
		res.Uncompressed = true
		res.Body = &gzipBody{raw: raw}
	}
}

// responseBody reads a response's body from the connection.
type responseBody struct {
	t    *trip
	res  *http.Response
	stop func() bool // stops waiting for the request's context; nil if that is the task's

	// Reader only.
	data []byte // parsed, and not read yet
	err  error  // returned by Read when data is empty

	mu      sync.Mutex
	busy    bool // a Read is running; guarded by mu
	closed  bool // by Close; guarded by mu
	ended   bool // the connection was released or closed; guarded by mu
	aborted bool // because the request's context has ended; guarded by mu
}

// tryNext returns the next event of the bytes that were received. It does not wait.
func (b *responseBody) tryNext() (http1.Event, []byte, error) {
	cc := b.t.cc
	n, event, err := cc.parser.Parse(cc.rest)
	cc.rest = cc.rest[n:]
	if err != nil {
		return event, nil, malformed(err)
	}
	if event == http1.Data {
		return event, cc.parser.Data(), nil
	}
	return event, nil, nil
}

// Read reads what was received, and waits if that is nothing.
func (b *responseBody) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	aborted := b.aborted && !b.closed
	switch {
	case b.closed:
		err = http.ErrBodyReadAfterClose
	case b.busy && !aborted:
		err = errors.New("web: two reads of a response's body at once")
	}
	b.busy = b.busy || err == nil && !aborted
	b.mu.Unlock()
	if aborted {
		return 0, ended(b.t.req.Context())
	}
	if err != nil {
		return 0, err
	}
	n, err = b.read(p)
	b.mu.Lock()
	b.busy = false
	aborted = b.aborted && err != nil && err != io.EOF
	b.mu.Unlock()
	if aborted {
		err = ended(b.t.req.Context())
	}
	return n, err
}

func (b *responseBody) read(p []byte) (int, error) {
	for len(b.data) == 0 && b.err == nil {
		if len(p) == 0 {
			return 0, nil
		}
		if n, ok, err := b.direct(p); ok {
			return n, err
		}
		event, err := b.t.nextEvent()
		switch {
		case err != nil:
			var canceled *spindle.Canceled
			if errors.As(err, &canceled) { // nothing was consumed, so the next Read can go on
				return 0, err
			}
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			b.finish(err)
		case event == http1.Data:
			b.data = b.t.cc.parser.Data()
		case event == http1.End:
			b.finish(nil)
		}
	}
	if len(b.data) == 0 {
		return 0, b.err
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	b.peek()
	return n, nil
}

// peek checks for the end of the body, so that a caller that reads exactly the body's
// length releases the connection.
func (b *responseBody) peek() {
	if len(b.data) > 0 || b.err != nil {
		return
	}
	event, data, err := b.tryNext()
	switch {
	case err != nil:
		b.finish(err)
	case event == http1.End:
		b.finish(nil)
	default:
		b.data = data
	}
}

// direct reads a body that is not chunked into p, without a copy. It reports false if it
// did not.
func (b *responseBody) direct(p []byte) (n int, ok bool, err error) {
	cc := b.t.cc
	if len(p) < readSize/4 || len(cc.rest) > 0 || cc.parser.Chunked() || cc.parser.Idle() {
		return 0, false, nil
	}
	// Only at the end of a body does the parser need no data.
	if b.peek(); b.err != nil {
		return 0, true, b.err
	}
	n, _ = cc.conn.Read(p)
	if n == 0 {
		return 0, false, nil // nextEvent will return the error
	}
	used, _, err := cc.parser.Parse(p[:n])
	if used < n { // bytes after the end
		cc.rest = append([]byte(nil), p[used:n]...)
	}
	if err != nil {
		b.finish(malformed(err))
		return 0, true, b.err
	}
	b.peek()
	return used, true, nil
}

// finish ends the body: with err, or complete if err is nil.
func (b *responseBody) finish(err error) {
	if b.err = io.EOF; err != nil {
		b.err = err
	}
	b.mu.Lock()
	ended := b.ended
	b.ended = true
	b.mu.Unlock()
	if b.stop != nil && !b.stop() || ended || err != nil {
		b.t.cc.close()
		return
	}
	if b.res.TransferEncoding != nil && b.t.cc.parser.FieldCount() > 0 {
		if b.res.Trailer == nil {
			b.res.Trailer = make(http.Header)
		}
		b.t.cc.parser.AddTo(b.res.Trailer)
	}
	b.t.finish()
}

// abort ends the body because the request's context has ended.
func (b *responseBody) abort() {
	b.mu.Lock()
	b.aborted = b.aborted || !b.ended
	b.ended = true
	b.mu.Unlock()
	b.t.cc.close()
}

// Limits for what Close reads to keep the connection.
const (
	maxDrained   = 64 << 10
	drainTimeout = time.Second
)

// Close makes later Reads fail. If little of the body is left, it is read in the background
// and the connection is kept. Otherwise the connection is closed.
func (b *responseBody) Close() error {
	b.mu.Lock()
	again, ended, busy := b.closed, b.ended, b.busy
	b.closed = true
	b.mu.Unlock()
	switch {
	case again || ended:
	case busy || b.t.closing || b.res.ContentLength > maxDrained:
		b.abandon()
	default:
		l, nursery := b.t.cc.p.l, b.t.cc.p.nursery
		drain := func() {
			if nursery.Ended() || nursery.Scope().Err() != nil {
				b.abandon()
				return
			}
			nursery.GoWith(spindle.TaskOptions{Name: "rest of a response", Eager: true, Values: coro.Helper{}}, b.drain)
		}
		if l.Owns() {
			drain()
		} else if l.Internal().Post(atclose.Drop, drain) != nil {
			b.abandon()
		}
	}
	return nil
}

// abandon closes the connection before the end of the body.
func (b *responseBody) abandon() {
	if b.stop != nil {
		b.stop()
	}
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.t.cc.close()
}

func (b *responseBody) drain(ctx context.Context) error {
	spindle.MoveOnAfter(ctx, drainTimeout, func(context.Context) error {
		buf := make([]byte, readSize)
		for left := maxDrained; left > 0 && b.err == nil; {
			n, err := b.read(buf)
			if left -= n; err != nil {
				return nil
			}
		}
		return nil
	})
	if b.err == nil {
		b.abandon()
	}
	return nil
}

// rawBody is a body as it is received.
type rawBody interface {
	io.ReadCloser
	isClosed() bool // by Close
}

func (b *responseBody) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// gzipBody decompresses a body.
type gzipBody struct {
	raw rawBody
	zip *gzip.Reader
	err error
}

// Read reads decompressed bytes. The gzip header is read by the first call and not before,
// so that an empty body is not an error.
func (g *gzipBody) Read(p []byte) (int, error) {
	if g.raw.isClosed() { // the decompressor may have bytes left
		return 0, http.ErrBodyReadAfterClose
	}
	if g.err == nil && g.zip == nil {
		g.zip, g.err = gzip.NewReader(g.raw)
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.zip.Read(p)
}

// Close closes the raw body.
func (g *gzipBody) Close() error { return g.raw.Close() }

// upgraded is the body of a response after which the caller owns the connection. It is a
// net.Conn.
type upgraded struct {
	wireConn
	cc    *clientConn
	ahead []byte // received with the header
}

var _ net.Conn = (*upgraded)(nil)

func (u *upgraded) Read(p []byte) (int, error) {
	if len(u.ahead) > 0 {
		n := copy(p, u.ahead)
		u.ahead = u.ahead[n:]
		return n, nil
	}
	return u.wireConn.Read(p)
}

func (u *upgraded) Close() error {
	u.cc.close()
	return nil
}
