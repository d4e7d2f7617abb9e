package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
)

// trip is one request on a connection, and its response.
type trip struct {
	cc  *clientConn
	req *http.Request
	who caller

	heard    bool // of the server, since the request
	unzip    bool // gzip was asked for by us, not by the request
	closing  bool // the connection is not to be used again
	expects  bool // the body waits for the server to want it
	whole    bool // the body, if there is one, is sent with the header
	interims int  // responses that came before the one that counts

	bodyClosed atomic.Bool

	mu      sync.Mutex
	sending bool  // the body is under way; guarded by mu
	fault   error // why the body could not be sent; guarded by mu
	over    bool  // the response has ended, and the connection waits for the body; guarded by mu
}

// run sends the request and returns the response once its header is there.
func (t *trip) run(ctx context.Context, head []byte) (*http.Response, error) {
	t.cc.parser.Answering(t.method())
	if _, err := t.cc.conn.Write(head); err != nil {
		// What the server has said before it closed the connection counts.
		t.closeBody()
		t.closing = true
		if res, e := t.response(ctx); e == nil {
			return res, nil
		}
		return nil, err
	}
	switch {
	case t.whole:
		t.closeBody()
	case t.expects:
		return t.afterContinue(ctx)
	default:
		t.sendBody()
	}
	return t.response(ctx)
}

// method returns the request's method.
func (t *trip) method() string {
	if t.req.Method == "" {
		return "GET"
	}
	return t.req.Method
}

// closeBody closes the request's body, once. It may be called from any goroutine.
func (t *trip) closeBody() {
	if !t.bodyClosed.Swap(true) {
		closeBody(t.req)
	}
}

// afterContinue waits for the server to want the body, for a while.
func (t *trip) afterContinue(ctx context.Context) (*http.Response, error) {
	var res *http.Response
	want := false // the server has said so
	look := func(ctx context.Context) (err error) {
		res, want, err = t.interim(ctx)
		return err
	}
	var err error
	late := false
	if patience := or(t.cc.p.c.ContinueTimeout, time.Second); patience > 0 {
		late, err = spindle.MoveOnAfter(ctx, patience, look)
	} else {
		err = look(ctx)
	}
	switch {
	case err != nil:
		t.closeBody()
		return nil, err
	case res != nil: // the server does not want it
		t.closeBody()
		return res, nil
	case want || late:
		t.sendBody()
	}
	return t.response(ctx)
}

// response waits for the final response's header.
func (t *trip) response(ctx context.Context) (res *http.Response, err error) {
	wait := func(ctx context.Context) error {
		for res == nil && err == nil {
			res, _, err = t.interim(ctx)
		}
		return err
	}
	if patience := t.cc.p.c.HeaderTimeout; patience > 0 {
		var late bool
		if late, err = spindle.MoveOnAfter(ctx, patience, wait); late {
			err = errHeaderTimeout
		}
	} else {
		err = wait(ctx)
	}
	if err == nil {
		return res, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault != nil { // that is why, or was before
		return nil, t.fault
	}
	return nil, err
}

// errHeaderTimeout is a net.Error. To errors.Is it is also os.ErrDeadlineExceeded.
var errHeaderTimeout error = &aliasError{"web: timeout awaiting response headers", os.ErrDeadlineExceeded}

// mostInterim is how many responses may come before the one that counts.
const mostInterim = 16

// interim waits for the next response: the one that counts, or whether it is a
// 100.
func (t *trip) interim(ctx context.Context) (res *http.Response, carryOn bool, err error) {
	p := t.cc.parser
	for ; t.interims < mostInterim; t.interims++ {
		event, err := t.next()
		switch {
		case err != nil:
			return nil, false, err
		case event != http1.Head:
			return nil, false, fmt.Errorf("%w: nothing where a response should be", ErrMalformedResponse)
		case !p.Interim():
			return t.begin(ctx), false, nil
		}
		status := p.Status()
		if trace := httptrace.ContextClientTrace(t.req.Context()); trace != nil {
			if status == 100 && trace.Got100Continue != nil {
				trace.Got100Continue()
			}
			if trace.Got1xxResponse != nil {
				h := make(http.Header)
				p.AddTo(h)
				if err := trace.Got1xxResponse(status, textproto.MIMEHeader(h)); err != nil {
					return nil, false, err
				}
			}
		}
		if _, err := t.next(); err != nil { // its end
			return nil, false, err
		}
		if status == 100 {
			t.interims++
			return nil, true, nil
		}
	}
	return nil, false, fmt.Errorf("%w: too many responses in advance", ErrMalformedResponse)
}

// readSize is how much is read at once.
const readSize = 16 << 10

type readBuffer [readSize]byte

// readBuffers are those of connections that are idle now.
var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

// next reads until the parser has something to say.
func (t *trip) next() (http1.Event, error) {
	cc := t.cc
	for {
		n, event, err := cc.parser.Parse(cc.rest)
		cc.rest = cc.rest[n:]
		if err != nil {
			return event, malformed(err)
		}
		if event != http1.More {
			return event, nil
		}
		if cc.buf == nil {
			cc.buf = readBuffers.Get().(*readBuffer)
		}
		n, err = cc.conn.Read(cc.buf[:])
		if cc.rest = cc.buf[:n]; n > 0 {
			t.heard = true
			continue
		}
		if err == io.EOF {
			return t.atEOF()
		}
		if err != nil {
			return http1.More, err
		}
	}
}

// atEOF is what the end of the connection means.
func (t *trip) atEOF() (http1.Event, error) {
	event, err := t.cc.parser.EOF()
	switch {
	case err != nil:
		return event, malformed(err)
	case event == http1.More: // instead of a response
		if t.heard {
			return event, io.ErrUnexpectedEOF
		}
		return event, io.EOF
	}
	return event, nil
}

func malformed(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrMalformedResponse, err)
}

// begin makes the response of its header.
func (t *trip) begin(ctx context.Context) *http.Response {
	p := t.cc.parser
	res := &http.Response{
		StatusCode: p.Status(),
		Status:     strconv.Itoa(p.Status()) + " " + string(p.Reason()),
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        make(http.Header, p.FieldCount()),
		ContentLength: p.Length(),
		Close:         !p.KeepAlive(),
		Request:       t.req,
		TLS:           t.cc.tls,
	}
	if p.Version() == http1.HTTP10 {
		res.Proto, res.ProtoMinor = "HTTP/1.0", 0
	}
	p.AddTo(res.Header)
	if p.Chunked() {
		res.TransferEncoding = []string{"chunked"}
		trailer := make(http.Header)
		if p.DeclareTrailers(trailer); len(trailer) > 0 {
			res.Trailer = trailer
		}
	}
	// A server that does not want the body may wait for it all the same.
	t.closing = t.closing || res.Close || t.expects
	t.receive(ctx, res)
	return res
}

// mayRepeat tells whether a request that has failed may be made on another
// connection: this one was kept too long, and the request is harmless, or nothing of
// it was sent.
func (t *trip) mayRepeat(err error) bool {
	var canceled *spindle.Canceled
	r := t.req
	switch {
	case !t.cc.used || t.heard || errors.As(err, &canceled) || errors.Is(err, os.ErrDeadlineExceeded):
		return false
	case r.Body != nil && r.Body != http.NoBody && r.GetBody == nil:
		return false
	}
	switch r.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}
