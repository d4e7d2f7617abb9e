package web

import (
	"bytes"
	"net/http"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/transport"
)

// LeanCtx is a request to a lean handler, and its response. It and all that it
// returns are lent for the time of the call: what is to be kept must be copied.
type LeanCtx struct {
	c     *conn
	p     *http1.RequestParser
	path  []byte
	query []byte

	status int
	fields []byte // of the response's header
	ctype  []byte // the field Content-Type; empty for the usual one
	body   []byte // of the response
	toHead bool   // the request is HEAD
	closes bool
	fault  error
	record *record // nil if there is no access log
}

// LeanRoutes makes a lean handler of several, by exact path. What has no route is left
// to Server.Handler.
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

// answersLean asks a lean handler, and tells whether it has answered.
func (c *conn) answersLean(lean func(*LeanCtx) bool, p *http1.RequestParser) bool {
	lc := &c.st.lean
	lc.begin(c, p)
	if !lean(lc) {
		if c.more != nil {
			c.more.wanted = nil // who leaves the request to the Handler leaves it the body
		}
		return false
	}
	if c.more != nil && c.more.wanted != nil {
		c.flags |= collecting
		if p.Length() > int64(c.more.most) {
			c.tooMuch()
			return true
		}
		if p.ExpectsContinue() {
			c.st.out = append(c.st.out, http1.Continue...)
		}
		return true
	}
	c.flags |= skipping
	// The answer goes out before the body, which may come or not after an Expect, and may
	// be too much to skip.
	if p.ExpectsContinue() || p.Chunked() || p.Length() > skipLimit {
		lc.closes = true
	}
	lc.finish()
	if p.Length() != 0 && c.is(closesNext) {
		c.close()
	}
	return true
}

func (lc *LeanCtx) begin(c *conn, p *http1.RequestParser) {
	lc.c, lc.p = c, p
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
	lc.fields, lc.ctype, lc.body = lc.fields[:0], lc.ctype[:0], lc.body[:0]
	lc.closes = !lc.p.KeepAlive() || lc.c.st.closesIdle
	if most := lc.c.st.sv.server.MaxRequestsPerConn; most > 0 && int(lc.c.requests) >= most {
		lc.closes = true
	}
}

// Method is the request's.
func (lc *LeanCtx) Method() []byte { return lc.p.Method() }

// Path is the path of the request's target as it was sent: escapes are not undone. A
// target that is a whole URL, as clients send to a proxy, has the path of that URL. The
// path is "*" if OPTIONS asks about the server, and empty for CONNECT.
func (lc *LeanCtx) Path() []byte { return lc.path }

// Query is what follows the question mark.
func (lc *LeanCtx) Query() []byte { return lc.query }

// Host is the host that the request is for.
func (lc *LeanCtx) Host() []byte { return lc.p.Host() }

// Header is the first field of that name in the request's header, nil if there is
// none.
func (lc *LeanCtx) Header(name string) []byte { return lc.p.Get(name) }

// Conn is the connection.
func (lc *LeanCtx) Conn() *transport.Conn { return lc.c.tc }

// ReadBody has fn called with the request's body once all of it has come, to answer
// then; a longer one than most is answered with 413. The request's line and header
// are not to be asked for any more in fn.
func (lc *LeanCtx) ReadBody(most int, fn func(c *LeanCtx, body []byte)) {
	if fn == nil {
		panic("web: ReadBody with a nil function")
	}
	m := lc.c.extra()
	m.wanted, m.most, m.body = fn, most, m.body[:0]
	m.toHead, m.record = lc.toHead, lc.record
}

// SetStatus sets the response's status; it is 200 otherwise.
func (lc *LeanCtx) SetStatus(status int) {
	if status < 200 || status > 999 {
		panic("web: SetStatus with a status that is none of a response")
	}
	lc.status = status
}

// SetContentType sets the body's type; it is text/plain otherwise.
func (lc *LeanCtx) SetContentType(value string) {
	var err error
	if lc.ctype, err = http1.AppendField(lc.ctype[:0], "Content-Type", value); err != nil {
		lc.fault = err
	}
}

// AddHeader adds a field to the response's header. Content-Type, of which there is
// one, replaces the one before. The server itself writes Content-Length,
// Transfer-Encoding, Date and Connection: AddHeader ignores them, except that a
// Connection with "close" is CloseAfter.
func (lc *LeanCtx) AddHeader(name, value string) {
	var err error
	switch {
	case named(name, "Content-Type"):
		lc.SetContentType(value)
	case named(name, "Connection"):
		if hasToken([]string{value}, "close") {
			lc.closes = true
		}
	case named(name, "Content-Length"), named(name, "Transfer-Encoding"), named(name, "Date"):
	default:
		lc.fields, err = http1.AppendField(lc.fields, name, value)
	}
	if err != nil {
		lc.fault = err
	}
}

// CloseAfter has the connection closed behind the response.
func (lc *LeanCtx) CloseAfter() { lc.closes = true }

// Write adds to the response's body. It never fails.
func (lc *LeanCtx) Write(p []byte) (int, error) {
	lc.body = append(lc.body, p...)
	return len(p), nil
}

// WriteString adds to the response's body. It never fails.
func (lc *LeanCtx) WriteString(s string) (int, error) {
	lc.body = append(lc.body, s...)
	return len(s), nil
}

// finish puts the response behind those that are to be sent with it.
func (lc *LeanCtx) finish() {
	if lc.fault != nil {
		lc.c.st.sv.server.errorLog().Error("web: header of a lean handler", "err", lc.fault)
		lc.reset()
		lc.status, lc.closes = http.StatusInternalServerError, true
	}
	c, st := lc.c, lc.c.st
	b := http1.AppendStatusLine(st.out, lc.p.Version(), lc.status)
	b = append(b, st.dateLine()...)
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
		c.flags |= closesNext
	case lc.p.Version() == http1.HTTP10:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	if !bodyless(lc.status) && !lc.toHead {
		b = append(b, lc.body...)
	}
	st.out = b
	lc.log()
	if cap(lc.body) > keepLean {
		lc.body = nil
	}
	if len(st.out) >= bufferSize {
		c.flushLean()
	}
}

// keepLean is the largest buffer that is kept for the next lean response.
const keepLean = 64 << 10

// flushLean writes what lean handlers have answered.
func (c *conn) flushLean() {
	st := c.st
	c.tc.Write(st.out)
	if st.out = st.out[:0]; cap(st.out) > keepLean {
		st.out = nil
	}
	if c.tc.Unsent() > highWater {
		c.holdWrites()
	}
}

// collect takes a piece of the body that a lean handler wants.
func (c *conn) collect(data []byte) {
	m := c.more
	if len(m.body)+len(data) > m.most {
		c.tooMuch()
		return
	}
	m.body = append(m.body, data...)
}

// tooMuch refuses a body that is larger than a lean handler wants.
func (c *conn) tooMuch() {
	c.more.wanted, c.more.body = nil, nil
	c.flags &^= collecting
	c.refuse(http1.ErrBodyTooLarge)
}

// collected calls the lean handler that wanted the body.
func (c *conn) collected(p *http1.RequestParser) {
	m := c.more
	fn, body := m.wanted, m.body
	m.wanted, m.body = nil, nil
	c.flags &^= collecting
	lc := &c.st.lean
	lc.c, lc.p, lc.path, lc.query = c, p, nil, nil
	lc.toHead, lc.record = m.toHead, m.record
	lc.reset()
	fn(lc, body)
	lc.finish()
}
