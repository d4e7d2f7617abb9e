package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
)

// exchange is one request and its response. Its handler may keep what it was given,
// so it is never used again.
//
// Everything that a request needs of a fixed size is one object: with the values of the
// header it fits a size class of the allocator exactly.
type exchange struct {
	c  *conn      // loop goroutine only
	st *loopState // only what is for any goroutine, outside the loop

	// What the request says. Set by newExchange, read by any.
	method    string
	target    string
	remote    string
	version   http1.Version
	keepAlive bool
	expects   bool // the client waits for a 100 before it sends the body
	last      bool // the connection takes no more requests
	returned  bool // the handler did, without a panic; set before the guard is closed

	w    response
	body *body // nil if there is none
	ctx  requestContext

	// What the handler gets, and may change.
	req    http.Request
	url    url.URL
	values [3]string // of the header, unless there are more

	// Loop goroutine only.
	scope     *spindle.Scope // of an inline handler; nil before and after
	deadlines *deadlines     // nil for most
	started   bool
	complete  bool // all of the request has come
	begun     bool // some of the response was sent, besides interim ones
	closes    bool // the connection cannot be used after this
	sendsFile bool // to a client that may be slow
}

// newExchange takes over what the parser was lent. It reports whether net/url agrees.
func newExchange(c *conn, p *http1.RequestParser) (*exchange, bool) {
	st := c.st
	header, host := make(http.Header), st.hostString(p.Host())
	x := &exchange{
		c:         c,
		st:        st,
		method:    p.MethodString(),
		remote:    c.remoteAddr(),
		version:   p.Version(),
		keepAlive: p.KeepAlive(),
		expects:   p.ExpectsContinue(),
	}
	if most := st.sv.server.MaxRequestsPerConn; most > 0 && int(c.requests) >= most {
		x.last = true
	}
	x.target = p.TargetAndAddTo(header, x.values[:])
	x.ctx.x, x.ctx.base = x, c.baseOf()
	if p.Length() != 0 {
		x.body = newBody(x, p)
	}
	x.w.init(x)
	x.w.date = st.dateLine()
	if st.log.to != nil {
		x.w.since, x.w.host = st.l.Time(), host
	}
	x.describe(header, host)
	return x, setURL(&x.url, x.method, x.target)
}

// start has the handler begin.
func (x *exchange) start() {
	x.started = true
	if len(x.st.out) > 0 {
		x.c.flushLean() // what was answered before goes out before
	}
	if x.st.sv.runsInline(x) {
		x.st.tasks().GoWith(spindle.TaskOptions{Eager: true, Values: &x.ctx}, serveTask)
		return
	}
	x.st.sv.workers.run(x)
	x.st.gaveWork()
}

// exchangeKey is the context key of a request's exchange.
type exchangeKey struct{}

// serveTask is an inline handler's task. It finds its exchange in the task's values: a
// method value of the exchange would be allocated for each request.
func serveTask(ctx context.Context) error {
	x := ctx.Value(exchangeKey{}).(*exchange)
	x.scope = ctx.(*spindle.Scope)
	if cause := x.ctx.cause; cause != nil { // until the handler runs, only the loop sets it
		x.scope.Cancel(cause)
	}
	if base := x.ctx.base; base != nil && base.Done() != nil {
		defer follow(x.scope, base)()
	}
	defer x.removeFiles(ctx)
	x.serve(ctx)
	return nil
}

// removeFiles removes the temporary files of an inline handler's multipart form.
func (x *exchange) removeFiles(ctx context.Context) {
	if form := x.req.MultipartForm; form != nil {
		_ = spindle.Shield(ctx, func(ctx context.Context) error {
			_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, form.RemoveAll() })
			return err
		})
	}
}

// serve runs the handler. Whatever that does, the request comes to its end.
func (x *exchange) serve(ctx context.Context) {
	defer x.conclude()
	h := x.st.sv.handler
	if x.method == "OPTIONS" && x.target == "*" && !x.st.sv.server.DisableGeneralOptionsHandler {
		h = ofTheServer
	}
	x.req = *x.req.WithContext(ctx) // inlined, so that the copy is on the stack
	h.ServeHTTP(&x.w, &x.req)
	x.returned = true
}

// ofTheServer answers what is asked about the server itself, as net/http does.
var ofTheServer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
})

// conclude is deferred by serve. From here on calls of the request's and response's
// methods fail. One that is under way, in a goroutine that the handler did not wait
// for, is let finish, and ends the exchange itself.
func (x *exchange) conclude() {
	if !x.returned {
		x.st.sv.logPanic(recover(), x.remote)
	}
	onLoop := x.st.l.Owns()
	if onLoop {
		x.scope = nil // it ends with the task
	} else if form := x.req.MultipartForm; form != nil {
		_ = form.RemoveAll() // its temporary files; removeFiles does not block the loop
	}
	x.ctx.end(context.Canceled)
	x.body.close()
	if x.w.close() {
		x.end(onLoop)
	}
}

// end completes the response, in the goroutine that left the guard last.
func (x *exchange) end(onLoop bool) {
	if x.returned {
		x.w.end()
	}
	if onLoop {
		x.finish()
	} else {
		x.st.deliver(x)
	}
}

// finish sends what the handler has left, on the loop.
func (x *exchange) finish() {
	c, w := x.c, &x.w
	late := x.deadlines.late(x.st.l) && (x.deadlines.missed || len(w.head)+len(w.buf) > 0)
	x.deadlines.cancel()
	x.body.drop()
	switch {
	case c.is(gone):
	case c.is(switching):
		if h, ok := c.tc.Protocol().(*hijacked); ok && !x.returned {
			h.abandon(c)
		}
	case !x.returned || late: // what was flushed is sent
		c.hangUp()
	default:
		x.closes = x.closes || w.closes
		w.sendLast(c.tc)
	}
	x.log()
	x.st.giveDraft(w.draft)
	w.draft = nil
	c.answered(x)
}

// cancel ends the request's context, on the loop.
func (x *exchange) cancel(cause error) {
	x.ctx.end(cause)
	if x.scope != nil {
		x.scope.Cancel(cause)
	}
}
