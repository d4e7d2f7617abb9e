package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	p      *pool
	cc     *clientConn // nil on a stream of HTTP/2
	call   *h2Call     // nil on a connection of HTTP/1.1
	req    *http.Request
	head   http1.RequestHead
	small  []byte // a body that is sent with the head
	caller caller
	mode   uploadMode

	received bool // bytes of a response
	unzip    bool // the Transport asked for gzip, not the request
	closing  bool // the connection cannot be used again
	interims int  // the number of interim responses

	headerWait *spindle.Scope // the wait for the response's header, if HeaderTimeout limits it; loop goroutine only

	bodyClosed atomic.Bool

	mu           sync.Mutex
	sending      bool  // the body is being sent; guarded by mu
	bodyErr      error // why the body could not be sent; guarded by mu
	bodyFailed   bool  // bodyErr is the body's, not the connection's; guarded by mu
	responseDone bool  // the response has ended, and the connection waits for the body; guarded by mu
}

// uploadMode is how the body of a request is sent.
type uploadMode uint8

const (
	uploadFollows        uploadMode = iota // in the background, after the head
	uploadAwaitsContinue                   // uploadFollows after a 100 response
	uploadWithHead                         // with the head, or there is no body
)

// run sends the request, and returns the response when its header was received.
func (t *trip) run(ctx context.Context, head []byte) (*http.Response, error) {
	if err := t.sendHead(head); err != nil {
		// The server may have answered before it closed the connection.
		t.closeBody()
		t.closing = true
		if res, e := t.response(ctx); e == nil {
			return res, nil
		}
		return nil, err
	}
	switch t.mode {
	case uploadWithHead:
		t.closeBody()
	case uploadAwaitsContinue:
		return t.afterContinue(ctx)
	default:
		t.sendBody()
	}
	return t.response(ctx)
}

// sendHead sends the head, with a body that is small.
func (t *trip) sendHead(head []byte) error {
	if t.call != nil {
		t.call.begin(head)
		return nil
	}
	t.cc.parser.Answering(t.method())
	_, err := t.cc.conn.Write(append(head, t.small...))
	return err
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

// afterContinue waits for a 100 response, or for ContinueTimeout, and sends the body. If
// the final response comes instead, the body is not sent.
func (t *trip) afterContinue(ctx context.Context) (*http.Response, error) {
	var res *http.Response
	want := false // a 100 response was received
	look := func(ctx context.Context) (err error) {
		res, want, err = t.nextResponse(ctx)
		return err
	}
	var err error
	late := false
	if timeout := orDefault(t.p.c.ContinueTimeout, time.Second); timeout > 0 {
		late, err = spindle.MoveOnAfter(ctx, timeout, look)
	} else {
		err = look(ctx)
	}
	switch {
	case err != nil:
		t.closeBody()
		return nil, err
	case res != nil:
		t.closeBody()
		return res, nil
	case want || late:
		t.sendBody()
	}
	return t.response(ctx)
}

// response waits for the header of the final response.
func (t *trip) response(ctx context.Context) (res *http.Response, err error) {
	wait := func(ctx context.Context) error {
		for res == nil && err == nil {
			res, _, err = t.nextResponse(ctx)
		}
		return err
	}
	if t.p.c.HeaderTimeout > 0 {
		err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			t.headerWait = s
			t.limitHeaderWait()
			return wait(ctx)
		})
		if t.headerWait.Caught() {
			err = errHeaderTimeout
		}
		t.headerWait = nil
	} else {
		err = wait(ctx)
	}
	if err == nil {
		return res, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bodyErr != nil { // it is the reason, or came first
		return nil, t.bodyErr
	}
	return nil, err
}

// limitHeaderWait starts HeaderTimeout if the request was sent and its response is awaited.
// A tunnel's request is its head.
func (t *trip) limitHeaderWait() {
	t.mu.Lock()
	sent := !t.sending || t.tunnels()
	t.mu.Unlock()
	if s := t.headerWait; s != nil && sent {
		s.SetDeadline(spindle.Now(s).Add(t.p.c.HeaderTimeout))
	}
}

// errHeaderTimeout is a net.Error. To errors.Is it is also os.ErrDeadlineExceeded.
var errHeaderTimeout error = timeoutError("web: timeout awaiting response headers")

// maxInterim limits the interim responses to one request.
const maxInterim = 16

// nextResponse waits for the final response, or reports that a 100 response was received.
func (t *trip) nextResponse(ctx context.Context) (res *http.Response, carryOn bool, err error) {
	if t.call != nil {
		return t.call.nextResponse(ctx)
	}
	p := t.cc.parser
	for ; t.interims < maxInterim; t.interims++ {
		event, err := t.nextEvent()
		switch {
		case err != nil:
			return nil, false, err
		case event != http1.Head:
			return nil, false, fmt.Errorf("%w: nothing to a response should be", errMalformedResponse)
		case !p.Interim():
			return t.newResponse(ctx), false, nil
		}
		status := p.Status()
		h := make(http.Header)
		p.AddTo(h)
		if err := t.traceInterim(status, h); err != nil {
			return nil, false, err
		}
		if _, err := t.nextEvent(); err != nil { // the end of the interim response
			return nil, false, err
		}
		if status == 100 {
			t.interims++
			return nil, true, nil
		}
	}
	return nil, false, fmt.Errorf("%w: too many responses in advance", errMalformedResponse)
}

// traceInterim passes an interim response to the request's trace, which may end the request.
func (t *trip) traceInterim(status int, h http.Header) error {
	trace := httptrace.ContextClientTrace(t.req.Context())
	if trace == nil {
		return nil
	}
	if status == 100 && trace.Got100Continue != nil {
		trace.Got100Continue()
	}
	if trace.Got1xxResponse != nil {
		return trace.Got1xxResponse(status, textproto.MIMEHeader(h))
	}
	return nil
}

// readSize is the size of a read buffer.
const readSize = 16 << 10

type readBuffer [readSize]byte

// readBuffers has the buffers of connections that became idle.
var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

// nextEvent reads until the parser has an event.
func (t *trip) nextEvent() (http1.Event, error) {
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
			t.received = true
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

// atEOF returns the event that the end of the connection is.
func (t *trip) atEOF() (http1.Event, error) {
	event, err := t.cc.parser.EOF()
	switch {
	case err != nil:
		return event, malformed(err)
	case event == http1.More: // no response, or not all of its header
		if t.received {
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
	return fmt.Errorf("%w: %w", errMalformedResponse, err)
}

// newResponse returns the response with the header that was parsed.
func (t *trip) newResponse(ctx context.Context) *http.Response {
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
	// A server that did not ask for the body may still wait for it.
	t.closing = t.closing || res.Close || t.mode == uploadAwaitsContinue
	t.receive(ctx, res)
	return res
}

// reused reports whether an earlier request has used the connection.
func (t *trip) reused() bool {
	if t.call != nil {
		return t.call.reused
	}
	return t.cc.used
}

// abandon gives the request up before its response.
func (t *trip) abandon() {
	if t.call != nil {
		t.call.cancel(net.ErrClosed)
	} else {
		t.cc.close()
	}
}

// mayRepeat reports whether a failed request may be made on another connection. The
// connection must have been kept from an earlier request, so that it may have been stale,
// and the request must be safe to repeat. Any request may be repeated that the server says it
// has not processed.
func (t *trip) mayRepeat(err error) bool {
	t.mu.Lock()
	bodyFailed := t.bodyFailed
	t.mu.Unlock()
	var canceled *spindle.Canceled
	r := t.req
	switch {
	case bodyFailed || errors.As(err, &canceled) || errors.Is(err, os.ErrDeadlineExceeded):
		return false
	case r.Body != nil && r.Body != http.NoBody && r.GetBody == nil:
		return false
	case errors.Is(err, errUnprocessed):
		return true
	case !t.reused() || t.received:
		return false
	}
	switch r.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}
