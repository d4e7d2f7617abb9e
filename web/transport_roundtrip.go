package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
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
	interims int  // responses that came before the one that counts

	bodyClosed atomic.Bool

	mu      sync.Mutex
	sending bool  // the body is under way; guarded by mu
	fault   error // why the body could not be sent; guarded by mu
	over    bool  // the response has ended, and the connection waits for the body; guarded by mu
}

// run sends the request and returns the response once its header is there.
func (t *trip) run(ctx context.Context) (*http.Response, error) {
	head, inline, err := t.head()
	if err != nil {
		t.closeBody()
		return nil, err
	}
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
	case inline:
		t.closeBody()
	case t.expects:
		return t.afterContinue(ctx)
	default:
		t.sendBody()
	}
	return t.response(ctx)
}

// closeBody closes the request's body, once. It may be called from any goroutine.
func (t *trip) closeBody() {
	if !t.bodyClosed.Swap(true) {
		closeBody(t.req)
	}
}

// length is the body's, as http1 has it.
func (t *trip) length() int64 {
	switch {
	case t.req.Body == nil || t.req.Body == http.NoBody || t.tunnels():
		return 0
	case t.req.ContentLength > 0 && len(t.req.Trailer) == 0:
		return t.req.ContentLength
	}
	return http1.Chunked
}

// tunnels reports whether the request's body is the sending side of a tunnel: CONNECT
// with a body of unknown length, which has no framing.
func (t *trip) tunnels() bool {
	r := t.req
	return r.Method == "CONNECT" && r.Body != nil && r.Body != http.NoBody && r.ContentLength <= 0
}

// mostInline is how long a body that lies in memory may be to go with the header.
const mostInline = 4 << 10

// head is the request's line and header, and its body if that is inline.
func (t *trip) head() (head []byte, inline bool, err error) {
	r, c := t.req, t.cc.p.c
	h := r.Header
	add := func(key, value string) {
		if h = maps.Clone(h); h == nil {
			h = make(http.Header)
		}
		h[key] = []string{value}
	}
	if agents, ok := h["User-Agent"]; !ok {
		add("User-Agent", "spindle")
	} else if len(agents) == 0 || agents[0] == "" { // it is not to be sent
		h = maps.Clone(h)
		delete(h, "User-Agent")
	} else if len(agents) > 1 {
		add("User-Agent", agents[0])
	}
	if !c.Plain && h.Get("Accept-Encoding") == "" && h.Get("Range") == "" && r.Method != "HEAD" {
		t.unzip = true
		add("Accept-Encoding", "gzip")
	}
	length := t.length()
	if len(r.Trailer) > 0 && length == http1.Chunked {
		keys := make([]string, 0, len(r.Trailer))
		for key := range r.Trailer {
			keys = append(keys, textproto.CanonicalMIMEHeaderKey(key))
		}
		add("Trailer", strings.Join(keys, ","))
	}
	t.expects = length != 0 && hasToken(h["Expect"], "100-continue")
	connection := http1.Unsaid
	if r.Close {
		connection = http1.Close
	}
	t.closing = r.Close || hasToken(h["Connection"], "close")
	method := r.Method
	if method == "" {
		method = "GET"
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	target := r.URL.RequestURI()
	if method == "CONNECT" && r.URL.Path == "" {
		if target = host; r.URL.Opaque != "" {
			target = r.URL.Opaque
		}
	}
	t.cc.parser.Answering(method)
	head, err = http1.AppendRequestHead(make([]byte, 0, 1<<10), &http1.RequestHead{
		Method: method, Target: target, Host: host, Length: length, Connection: connection, Header: h,
	})
	if err != nil || length == 0 {
		return head, !t.tunnels(), err
	}
	// That a body can be had again says that it lies in memory.
	if length < 0 || length > mostInline || r.GetBody == nil || t.expects {
		return head, false, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, length+1))
	if err == nil && int64(len(body)) != length {
		err = wrongLength(length, int64(len(body)))
	}
	return append(head, body...), true, err
}

func wrongLength(want, got int64) error {
	if got > want {
		return fmt.Errorf("web: ContentLength=%d with a longer body", want)
	}
	return fmt.Errorf("web: ContentLength=%d with a body of %d bytes", want, got)
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
			err = fmt.Errorf("web: waiting for a response: %w", os.ErrDeadlineExceeded)
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
	if t.closing = t.closing || res.Close || t.expects; t.closing {
		res.Close = true
	}
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
