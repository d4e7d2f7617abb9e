package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
)

// exchange is a request and its response.
//
//	newExchange ──▶ started ──▶ handling ──conclude──▶ returned ──end──▶ finished
//	                                │                                       ▲
//	                                └─panic, Goexit──▶ failed ──────────────┘
//
// newExchange, start and finish run on the loop; the handler and conclude run in a task of
// the loop or on a worker. A call of a ResponseWriter's method that is under way when the
// handler returns delays end: see guard. The request's arrival is a phase of the
// connection (inputBody, inputHold), its body and response have phases of their own.
//
// A handler may keep what it was given, so an exchange is never reused. Everything of a
// fixed size that a request needs is one object of 632 bytes. The allocator adds a word, and
// that fits its size class of 640.
type exchange struct {
	c  *conn      // loop goroutine only
	st *loopState // outside the loop, only what is for any goroutine

	// Set by newExchange, read by any goroutine.
	method   string
	target   string
	remote   string
	version  http1.Version
	persists bool // the client and the server's limits allow another request

	handler handlerPhase // written before the guard is closed, read after that
	wire    wirePhase    // loop goroutine only

	w    response
	body *body // nil if there is none
	ctx  requestContext

	// What the handler gets, and may change.
	req http.Request
	url url.URL

	// Loop goroutine only.
	scope     *spindle.Scope // of an inline handler while it runs
	deadlines *deadlines     // nil for most
}

// handlerPhase is how far a handler is.
type handlerPhase uint8

const (
	handling        handlerPhase = iota
	handlerReturned              // in order; the response is completed
	handlerFailed                // panicked or exited; the connection is closed
)

// wirePhase is how much of the final response the loop has sent.
//
//	silent ──▶ begun ◀──▶ file
type wirePhase uint8

const (
	wireSilent wirePhase = iota // nothing, besides interim responses
	wireBegun                   // some of it
	wireFile                    // a file is being sent, to a client that may be slow
)

// newExchange makes an exchange of the parsed head. It reports whether net/url accepts the
// target.
func newExchange(c *conn, p *http1.RequestParser) (*exchange, bool) {
	st := c.st
	header, host := make(http.Header), st.hostString(p.Host())
	x := &exchange{
		c:        c,
		st:       st,
		method:   p.MethodString(),
		remote:   c.remoteAddr(),
		version:  p.Version(),
		persists: p.KeepAlive() && !c.reachedLimit(),
	}
	x.target = p.TargetAndAddTo(header)
	x.ctx.x, x.ctx.base = x, c.baseContext()
	if len(header) > 0 {
		x.ctx.base = withTrace(x.ctx.base, header)
	}
	x.takePassed()
	if p.Length() != 0 {
		x.body = newBody(x, p)
	}
	x.w.init(x)
	x.w.date = st.dateLine()
	x.w.since = st.l.Internal().TurnTime()
	if st.log.to != nil || st.meter != nil {
		x.w.since, x.w.host = st.l.Time(), host
	}
	x.describe(header, host)
	x.req.Close = !p.KeepAlive()
	return x, setURL(&x.url, x.method, x.target)
}

// start starts the handler, on the loop.
func (x *exchange) start() {
	st := x.st
	if len(st.out) > 0 {
		x.c.flushLean() // earlier answers are sent first
	}
	if st.sv.runsInline(x) {
		if st.onlyProcessor {
			st.yieldSoon()
		}
		st.tasks().GoWith(spindle.TaskOptions{Eager: true, Values: &x.ctx}, serveTask)
		return
	}
	st.sv.workers.run(x)
	st.yieldSoon()
}

// exchangeKey is the context key of a request's exchange.
type exchangeKey struct{}

// serveTask is the task of an inline handler. It finds its exchange in the task's values: a
// method value of the exchange would be allocated for each request.
func serveTask(ctx context.Context) error {
	x := ctx.Value(exchangeKey{}).(*exchange)
	x.scope = ctx.(*spindle.Scope)
	if cause := x.ctx.cause; cause != nil { // only the loop sets it before the handler runs
		x.scope.Cancel(cause)
	}
	if base := x.ctx.base; base != nil && base.Done() != nil {
		defer follow(x.scope, base)()
	}
	defer x.removeFiles(ctx)
	x.serve(ctx)
	return nil
}

// removeFiles removes the temporary files of a multipart form, in a task.
func (x *exchange) removeFiles(ctx context.Context) {
	if form := x.req.MultipartForm; form != nil {
		_ = spindle.Shield(ctx, func(ctx context.Context) error {
			_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, form.RemoveAll() })
			return err
		})
	}
}

// serve calls the handler and ends the exchange, however the handler ends.
func (x *exchange) serve(ctx context.Context) {
	defer x.conclude()
	if tracer := x.st.sv.server.Tracer; tracer != nil {
		var end func()
		ctx, end = x.startSpan(ctx, tracer)
		defer end()
	}
	h := x.st.sv.handler
	if x.method == "OPTIONS" && x.target == "*" && !x.st.sv.server.DisableGeneralOptionsHandler {
		h = generalOptions
	}
	x.req = *x.req.WithContext(ctx) // inlined, so the copy is on the stack
	if x.w.s == nil || !x.serveDirect(h) {
		h.ServeHTTP(&x.w, &x.req)
	}
	x.handler = handlerReturned
}

// generalOptions answers "OPTIONS *" as net/http does.
var generalOptions = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
})

// conclude is deferred by serve. From now on calls of the request's and the response's
// methods fail. If a goroutine that the handler did not wait for is in such a call, that
// call ends the exchange.
func (x *exchange) conclude() {
	if x.handler != handlerReturned {
		x.handler = handlerFailed
		x.st.sv.logPanic(recover(), x.remote)
	}
	onLoop := x.st.l.Owns()
	if onLoop {
		x.scope = nil // it ends with the task
	} else if form := x.req.MultipartForm; form != nil {
		_ = form.RemoveAll() // in a task, removeFiles does it without blocking the loop
	}
	x.ctx.end(context.Canceled)
	x.body.close()
	if x.w.close() {
		x.end(onLoop)
	}
}

// end completes the response, in the goroutine that left the guard last.
func (x *exchange) end(onLoop bool) {
	if x.handler == handlerReturned {
		x.w.end()
	}
	if onLoop {
		x.finish()
	} else {
		x.st.deliver(x)
	}
}

// finish sends what is left of the response and continues with the connection, on the loop.
func (x *exchange) finish() {
	c, w := x.c, &x.w
	late := x.deadlines.late(x.st.l) && (x.deadlines.missed || len(w.head)+len(w.buf) > 0)
	x.deadlines.cancel()
	x.body.wakeReader()
	switch {
	case w.s != nil:
		x.finishStream(late)
	case c.phase == connLost:
	case c.phase == connSwitched:
		if h, ok := c.tc.Protocol().(*hijackedConn); ok && x.handler == handlerFailed {
			h.close()
		}
	case x.handler == handlerFailed || late: // what was flushed is sent, and the responses before
		c.close()
	default:
		w.sendLast(c.tc)
	}
	x.log()
	if m := x.st.meter; m != nil {
		x.count(m)
	}
	closes, s := w.closes, w.s
	x.st.giveDraft(w.draft)
	w.draft = nil
	if s != nil {
		s.h.settle()
		return
	}
	c.x = nil
	switch {
	case c.phase != connOpen:
	case closes:
		c.close()
	default:
		c.answered(x.body)
	}
}

// cancel ends the request's context, on the loop.
func (x *exchange) cancel(cause error) {
	x.ctx.end(cause)
	if x.scope != nil {
		x.scope.Cancel(cause)
	}
}

// receiving reports whether the request's body is still coming, on the loop.
func (x *exchange) receiving() bool {
	if b := x.body; b != nil && b.s != nil {
		return b.s.Receiving()
	}
	return x.c.x == x && x.c.input == inputBody
}
