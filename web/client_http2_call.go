package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/loop"
)

// h2Call is a request on a stream, and its response. Loop goroutine only.
type h2Call struct {
	http2.Stream
	hc *h2Client
	t  *trip

	res      *http.Response // received, and not returned yet
	body     *h2Body        // of res
	go100    bool           // a 100 was received
	interims int            // the number of interim responses
	err      error          // why the stream has ended early
	over     bool           // the response has ended
	reused   bool           // the connection has answered an earlier request

	rest   []byte // of the request's body, that cannot be sent yet
	ends   bool   // the body ends with rest
	queued bool   // in h2Client.sending

	header, writer *waiter
}

var (
	// errUnprocessed is the error of a request that the server has not processed.
	errUnprocessed = errors.New("web: the server did not process the request")
	// errUploadOver ends an upload that the server does not need.
	errUploadOver = errors.New("web: the server does not need the rest of the body")
)

// callOf returns the h2Call that s is part of.
func callOf(s *http2.Stream) *h2Call { return s.Owner.(*h2Call) }

// newCall returns a call that begins next, without a wait in between.
func (hc *h2Client) newCall(t *trip) *h2Call {
	c := &h2Call{hc: hc, t: t, reused: hc.answered}
	c.Owner = c
	return c
}

// begin sends the head, and a body that is small.
func (c *h2Call) begin(block []byte) {
	hc, t := c.hc, c.t
	hc.unsetIdle()
	hc.used = true
	if hc.fc.Out == nil {
		hc.fc.Out, hc.spare = hc.spare[:0], nil
	}
	hc.fc.Request(&c.Stream, block, t.mode == uploadWithHead && len(t.small) == 0)
	if len(t.small) > 0 {
		c.rest, c.ends = t.small, true
		c.sendSome()
	}
	if t.closing {
		hc.leaving = true
		hc.p.removeShared(hc)
	}
	hc.flush()
}

// appendFields appends the head of the request for HTTP/2.
func (t *trip) appendFields(b []byte) (_ []byte, err error) {
	h := &t.head
	if _, err := http1.AppendRequestLine(nil, h); err != nil {
		return nil, err
	}
	b = http2.AppendPseudo(b, ":method", h.Method)
	b = http2.AppendPseudo(b, ":authority", h.Host)
	if h.Method != "CONNECT" {
		b = http2.AppendPseudo(b, ":scheme", t.req.URL.Scheme)
		b = http2.AppendPseudo(b, ":path", h.Target)
	}
	keys := make([]string, 0, len(h.Header))
	for key := range h.Header { // any order: sorted below
		keys = append(keys, key)
	}
	for _, key := range http1.InOrder(h.Header, keys) {
		values := h.Header[key]
		switch {
		case ofConnection(key), named(key, "Host"), named(key, "Content-Length"):
			continue
		case named(key, "Te"):
			if !http1.HasToken(values, "trailers") {
				continue
			}
			values = []string{"trailers"}
		}
		for _, value := range values {
			if b, err = http2.AppendField(b, key, value); err != nil {
				return nil, err
			}
		}
	}
	if h.Length > 0 || h.Length == 0 && (h.Method == "POST" || h.Method == "PUT" || h.Method == "PATCH") {
		b = http2.AppendContentLength(b, h.Length)
	}
	return b, nil
}

// appendTrailers returns the encoded trailers.
func appendTrailers(h http.Header) (b []byte, err error) {
	keys := make([]string, 0, len(h))
	for key := range h { // any order: sorted below
		keys = append(keys, key)
	}
	for _, key := range http1.InOrder(h, keys) {
		for _, value := range h[key] {
			if b, err = http2.AppendField(b, key, value); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// nextResponse is that of HTTP/1.1 for a stream.
func (c *h2Call) nextResponse(ctx context.Context) (res *http.Response, carryOn bool, err error) {
	err = c.await(&c.header, "the response's header", func() bool { return c.res != nil || c.err != nil || c.go100 })
	switch {
	case err != nil:
		return nil, false, err
	case c.res != nil:
		res, c.res = c.res, nil
		c.body.follow(ctx)
		return res, false, nil
	case c.err != nil:
		return nil, false, c.err
	}
	c.go100 = false
	return nil, true, nil
}

// await waits until ready reports true, on the loop.
func (c *h2Call) await(place **waiter, what string, ready func() bool) error {
	hc, l := c.hc, c.hc.p.l
	inTask := l.Owns()
	for {
		var over, drives bool
		var w waiter
		err := awaitOn(l, what, func(done func(error)) {
			over = ready()
			drives = !over && (hc.undriven() || hc.orphaned && !inTask)
			if over || drives {
				done(nil)
				return
			}
			w.done = done
			*place = &w
		})
		if inTask && *place == &w { // the wait was cancelled
			*place = nil
		}
		switch {
		case err == loop.ErrClosed:
			return net.ErrClosed
		case err != nil:
			return err
		case over:
			return nil
		case !drives: // something has changed
		case !inTask:
			return net.ErrClosed
		default:
			if err := hc.drive(); err != nil {
				return err
			}
		}
	}
}

func wakeIn(place **waiter) {
	if w := *place; w != nil {
		*place = nil
		w.done(nil)
	}
}

func (c *h2Call) wakeAll() {
	wakeIn(&c.header)
	wakeIn(&c.writer)
	if c.body != nil {
		wakeIn(&c.body.reader)
	}
}

// head handles a header of the response.
func (c *h2Call) head(h *http2.Header, ends bool) {
	c.t.received = true
	header := make(http.Header, len(h.Fields))
	addFields(header, h)
	switch {
	case h.TooLarge:
		c.cancel(fmt.Errorf("%w: %w", errMalformedResponse, http1.ErrHeaderTooLarge))
	case h.Status == http.StatusSwitchingProtocols:
		c.cancel(fmt.Errorf("%w: status 101", errMalformedResponse))
	case h.Status/100 == 1:
		c.interim(h.Status, header)
	default:
		c.respond(h, header, ends)
	}
}

// interim handles an interim response.
func (c *h2Call) interim(status int, header http.Header) {
	if c.interims++; c.interims > maxInterim {
		c.cancel(fmt.Errorf("%w: too many responses in advance", errMalformedResponse))
		return
	}
	if err := c.t.traceInterim(status, header); err != nil {
		c.cancel(err)
		return
	}
	if status == http.StatusContinue {
		c.go100 = true
		wakeIn(&c.header)
	}
}

// respond makes the response.
func (c *h2Call) respond(h *http2.Header, header http.Header, ends bool) {
	c.hc.answered = true
	res := &http.Response{
		StatusCode: h.Status, Status: strconv.Itoa(h.Status) + " " + http.StatusText(h.Status),
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, ContentLength: h.Length, Request: c.t.req, TLS: c.hc.tls,
	}
	for _, value := range header["Trailer"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); http1.MayTrail(name) {
				if res.Trailer == nil {
					res.Trailer = make(http.Header)
				}
				res.Trailer[name] = nil
			}
		}
	}
	delete(header, "Trailer")
	b := &h2Body{c: c, res: res}
	c.res, c.body, res.Body = res, b, b
	toHead := c.t.method() == "HEAD"
	if ends {
		c.responded()
	}
	switch {
	case toHead: // its end, with trailers, may follow
		res.Body = http.NoBody
	case !ends:
	case bodyless(h.Status) || h.Length <= 0:
		if res.Body = http.NoBody; h.Length < 0 {
			res.ContentLength = 0
		}
	default:
		b.fail(io.ErrUnexpectedEOF)
	}
	if res.Body != http.NoBody {
		c.t.decompress(res, b)
	}
	wakeIn(&c.header)
}

// data handles a piece of the response's body.
func (c *h2Call) data(p []byte) {
	switch {
	case c.body == nil:
		c.cancel(fmt.Errorf("%w: a body before its header", errMalformedResponse))
	case c.t.method() == "HEAD":
		c.cancel(fmt.Errorf("%w: a body to HEAD", errMalformedResponse))
	case !c.body.push(p):
		c.hc.fc.Consume(&c.Stream, len(p))
	}
}

// ended handles the end of the response; h has its trailers.
func (c *h2Call) ended(h *http2.Header) {
	if c.body == nil {
		c.cancel(fmt.Errorf("%w: an end before its header", errMalformedResponse))
		return
	}
	c.responded()
	if len(h.Fields) > 0 {
		trailer := make(http.Header, len(h.Fields))
		addFields(trailer, h)
		c.body.setTrailer(trailer)
	}
	c.body.fail(io.EOF)
}

// responded is called at the end of the response. What is left of the request's body is of no
// use then, unless it is a tunnel, so it has as long as with HTTP/1.1.
func (c *h2Call) responded() {
	c.over = true
	if c.t.tunnels() || !c.Sending() {
		return
	}
	c.hc.p.l.CallLater(uploadGrace, func() {
		if c.err == nil && c.Sending() {
			c.cancel(errUploadOver)
		}
	})
}

// reset handles a reset of the server.
func (c *h2Call) reset(code http2.Code) {
	switch {
	case code == http2.RefusedStream:
		c.fail(fmt.Errorf("%w: %v", errUnprocessed, code))
	case code == http2.NoError && c.over: // the rest of the request's body is not needed
		c.fail(errUploadOver)
	default:
		c.fail(fmt.Errorf("web: the server reset the stream: %v", code))
	}
}

// fail ends the call. The stream is closed.
func (c *h2Call) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.rest = nil
	c.unqueue()
	if c.body != nil {
		c.body.fail(err)
	}
	c.wakeAll()
}

// cancel ends the call and resets the stream, unless the server has ended that with the frame
// that is the reason.
func (c *h2Call) cancel(err error) {
	if c.ID() == 0 { // not begun
		return
	}
	c.hc.fc.Reject(&c.Stream, http2.Cancel)
	c.fail(err)
	c.hc.settle()
}

// cancelFrom is cancel from any goroutine.
func (c *h2Call) cancelFrom(err error) {
	l := c.hc.p.l
	if l.Owns() {
		c.cancel(err)
	} else {
		_ = l.Internal().Post(atclose.Drop, func() { c.cancel(err) }) // a closed loop has ended it
	}
}
