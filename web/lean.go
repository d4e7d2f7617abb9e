package web

import (
	"bytes"
	"net/http"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/transport"
)

// LeanCtx is a request to a lean handler, and its response. It and everything that it
// returns are valid only during the call; copy what is needed longer.
type LeanCtx struct {
	c     *conn
	p     *http1.RequestParser
	path  []byte
	query []byte

	status int
	fields []byte // of the response's header
	ctype  []byte // the field Content-Type, of types; empty for the default
	body   []byte // of the response
	toHead bool   // the request is HEAD
	closes bool   // the connection closes after the response
	fault  error
	passed any // with the request, to Handler; nil for nothing

	// Of a request on a stream of HTTP/2. The parser is nil then.
	s      *h2Stream
	hd     *http2.Header // nil in a function of ReadBody
	text   []byte        // copies of what methods return
	method int           // how many bytes of text are the method
	block  []byte        // the encoded header of the response
	record *record       // nil without an access log

	deferral *streamDeferral // by Defer, until the handler returns

	types [2]leanType // the last Content-Type of HTTP/1.1, and of HTTP/2
}

// leanType is a Content-Type and its encoded field. A handler mostly sets the same ones.
type leanType struct {
	value, field []byte
}

// leanBody is the body of a request to a lean handler that called ReadBody.
type leanBody struct {
	fn     func(*LeanCtx, []byte)
	limit  int
	data   []byte
	toHead bool
	record *record
}

// LeanRoutes returns a lean handler that calls the one of routes with the request's exact
// path. Requests to other paths go to Server.Handler.
func LeanRoutes(routes map[string]func(*LeanCtx)) func(*LeanCtx) bool {
	return func(c *LeanCtx) bool {
		fn := routes[string(c.path)]
		if fn == nil {
			return false
		}
		fn(c)
		return true
	}
}

// answersLean calls the lean handler. It reports whether the handler takes the request.
func (c *conn) answersLean(lean func(*LeanCtx) bool, p *http1.RequestParser) bool {
	lc := &c.st.lean
	lc.begin(c, p)
	if !lean(lc) {
		if c.extra != nil {
			c.extra.lean, c.extra.deferral = nil, nil // the request is for Handler
		}
		return false
	}
	if c.deferral() != nil {
		if len(c.st.out) > 0 {
			c.flushLean() // earlier answers are sent first
		}
		c.expect(inputBody)
		return true
	}
	if c.extra != nil && c.extra.lean != nil {
		c.awaitLeanBody(p)
		return true
	}
	// The answer is sent before the body. After an Expect the body may come or not, and it
	// may be too much to skip.
	if p.ExpectsContinue() || p.Chunked() || p.Length() > skipLimit {
		lc.closes = true
	}
	lc.finish()
	if !lc.closes {
		c.expect(inputSkip)
		return true
	}
	c.expect(inputSkipLast)
	if p.Length() != 0 {
		c.close()
	}
	return true
}

// awaitLeanBody begins to collect the body for a lean handler that called ReadBody.
func (c *conn) awaitLeanBody(p *http1.RequestParser) {
	if p.Length() > int64(c.extra.lean.limit) {
		c.refuseLeanBody()
		return
	}
	c.expect(inputCollect)
	if p.ExpectsContinue() {
		c.st.out = append(c.st.out, http1.Continue...)
	}
}

func (lc *LeanCtx) begin(c *conn, p *http1.RequestParser) {
	lc.c, lc.p, lc.passed = c, p, nil
	target := p.OriginForm()
	lc.path, lc.query = target, nil
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		lc.path, lc.query = target[:i], target[i+1:]
	}
	if len(lc.path) == 0 && p.Absolute() {
		lc.path = root
	}
	lc.toHead = string(p.Method()) == http.MethodHead
	lc.note()
	lc.reset()
}

var root = []byte("/")

func (lc *LeanCtx) reset() {
	lc.status, lc.fault = http.StatusOK, nil
	lc.fields, lc.ctype, lc.body = lc.fields[:0], nil, lc.body[:0]
	if lc.s != nil {
		lc.closes = false
		return
	}
	lc.closes = !lc.p.KeepAlive() || lc.c.st.mode != modeKeepAlive || lc.c.reachedLimit()
}

// Method returns the request's method.
func (lc *LeanCtx) Method() []byte {
	if lc.s != nil {
		return lc.text[:lc.method:lc.method]
	}
	return lc.p.Method()
}

// Path returns the path of the request's target as it was sent: escapes are not decoded.
// For a target that is a URL, as clients send to a proxy, it is the path of that URL. It is
// "*" if OPTIONS asks about the server, and empty for CONNECT.
func (lc *LeanCtx) Path() []byte { return lc.path }

// Query returns what follows the question mark of the target.
func (lc *LeanCtx) Query() []byte { return lc.query }

// Host returns the host that the request is for.
func (lc *LeanCtx) Host() []byte {
	if lc.s != nil {
		return lc.streamHost()
	}
	return lc.p.Host()
}

// Header returns the value of the first field with that name in the request's header, nil
// if there is none.
func (lc *LeanCtx) Header(name string) []byte {
	if lc.s != nil {
		return lc.streamField(name)
	}
	return lc.p.Get(name)
}

// Conn returns the connection.
func (lc *LeanCtx) Conn() *transport.Conn { return lc.c.tc }

// ReadBody calls fn with the request's body when all of it has come; fn then answers the
// request. A body of more than limit bytes is answered with 413. The body is valid until fn
// returns. The request's line and header cannot be used in fn.
func (lc *LeanCtx) ReadBody(limit int, fn func(c *LeanCtx, body []byte)) {
	if fn == nil {
		panic("web: ReadBody with a nil function")
	}
	lc.c.ensureExtra().lean = &leanBody{fn: fn, limit: limit, toHead: lc.toHead, record: lc.record}
}

// SetStatus sets the response's status. The default is 200.
func (lc *LeanCtx) SetStatus(status int) {
	if status < 200 || status > 999 {
		panic("web: SetStatus with a status that is not one of a final response")
	}
	lc.status = status
}

// setContentType sets the response's Content-Type.
func (lc *LeanCtx) setContentType(value string) {
	last := &lc.types[0]
	if lc.s != nil {
		last = &lc.types[1]
	}
	if len(last.field) == 0 || string(last.value) != value {
		var err error
		last.value = append(last.value[:0], value...)
		if last.field, err = lc.appendField(last.field[:0], "Content-Type", value); err != nil {
			lc.fault = err
		}
	}
	lc.ctype = last.field
}

// AddHeader adds a field to the response's header. A Content-Type replaces the one before;
// the default is text/plain.
// The server itself writes Content-Length, Transfer-Encoding, Date and Connection:
// AddHeader ignores them, except that Connection with "close" closes the
// connection after the response.
func (lc *LeanCtx) AddHeader(name, value string) {
	var err error
	switch {
	case named(name, "Content-Type"):
		lc.setContentType(value)
	case named(name, "Connection"):
		if http1.HasToken([]string{value}, "close") {
			lc.closes = true
		}
	case named(name, "Content-Length"), named(name, "Transfer-Encoding"), named(name, "Date"):
	default:
		lc.fields, err = lc.appendField(lc.fields, name, value)
	}
	if err != nil {
		lc.fault = err
	}
}

// Write appends p to the response's body. It never fails.
func (lc *LeanCtx) Write(p []byte) (int, error) {
	lc.body = appendLean(lc.body, p)
	return len(p), nil
}

// WriteString appends s to the response's body. It never fails.
func (lc *LeanCtx) WriteString(s string) (int, error) {
	lc.body = appendLean(lc.body, s)
	return len(s), nil
}

// finish appends the response to those that will be sent together.
func (lc *LeanCtx) finish() {
	if lc.fault != nil {
		lc.c.st.sv.server.errorLog().Error("web: header of a lean handler", "err", lc.fault)
		lc.reset()
		lc.status, lc.closes = http.StatusInternalServerError, true
	}
	st, size := lc.c.st, len(lc.body)
	if lc.s != nil {
		lc.finishStream()
	} else {
		lc.finishLines()
	}
	lc.log(size)
	if m := st.meter; m != nil {
		m.Add(lc.status, st.l.Time()-st.l.Internal().TurnTime()) // since the request came, or before
	}
	if cap(lc.body) > keepLean {
		giveLean(lc.body)
		lc.body = nil
	}
	if len(st.out) >= bufferSize {
		lc.c.flushLean()
	}
}

// appendField appends a field as the connection's protocol encodes it.
func (lc *LeanCtx) appendField(dst []byte, name, value string) ([]byte, error) {
	switch {
	case lc.s == nil:
		return http1.AppendField(dst, name, value)
	case ofConnection(name):
		return dst, nil
	}
	return http2.AppendField(dst, name, value)
}

// finishLines is finish for HTTP/1.1.
func (lc *LeanCtx) finishLines() {
	st := lc.c.st
	b := st.out
	if date := st.dateLine(); lc.status == http.StatusOK && lc.p.Version() == http1.HTTP11 {
		b = append(b, st.begin...)
	} else {
		b = http1.AppendStatusLine(b, lc.p.Version(), lc.status)
		b = append(b, date...)
	}
	b = append(b, lc.fields...)
	b = append(b, lc.ctype...)
	if !bodyless(lc.status) {
		if len(lc.ctype) == 0 && len(lc.body) > 0 {
			b = append(b, "Content-Type: text/plain; charset=utf-8\r\n"...)
		}
		b = http1.AppendContentLength(b, int64(len(lc.body)))
	}
	switch {
	case lc.closes:
		b = append(b, "Connection: close\r\n"...)
	case lc.p.Version() == http1.HTTP10:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	if !bodyless(lc.status) && !lc.toHead {
		b = appendLean(b, lc.body)
	}
	st.out = b
}

// flushLean sends what lean handlers have answered.
func (c *conn) flushLean() {
	st := c.st
	c.tc.Write(st.out)
	if st.out = st.out[:0]; cap(st.out) > keepLean {
		giveLean(st.out)
		st.out = nil
	}
	if c.tc.Unsent() > highWater {
		c.holdWrites()
	}
}

// collect appends to the body that a lean handler waits for.
func (c *conn) collect(data []byte) {
	b := c.extra.lean
	if len(b.data)+len(data) > b.limit {
		c.refuseLeanBody()
		return
	}
	b.data = appendLean(b.data, data)
}

// refuseLeanBody refuses a body that is larger than the lean handler's limit.
func (c *conn) refuseLeanBody() {
	c.extra.lean = nil
	c.refuse(nil, http1.ErrBodyTooLarge)
}

// collected calls the lean handler that waits for the body. It reports whether the
// connection closes after the response.
func (c *conn) collected(p *http1.RequestParser) (closes bool) {
	b := c.extra.lean
	c.extra.lean = nil
	lc := &c.st.lean
	lc.c, lc.p, lc.path, lc.query = c, p, nil, nil
	lc.toHead, lc.record = b.toHead, b.record
	lc.reset()
	b.fn(lc, b.data)
	if c.extra != nil {
		c.extra.lean = nil // ReadBody in fn has nothing to read
	}
	lc.finish()
	giveLean(b.data)
	return lc.closes
}
