package web

import (
	"context"
	"net/http"
	"reflect"
	"runtime"

	"github.com/spindleloop/spindle"
)

// Inline marks a handler to run in a task on the loop instead of on a goroutine. The handler
// must not block; spindle.Blocking runs what does. The request's context is the task's
// scope.
//
// Middleware goes around Inline, not into it: http.TimeoutHandler(web.Inline(h), …). Then it
// may block and start goroutines, as it does with net/http. Inline(http.TimeoutHandler(…)) would
// block the loop, and panics.
func Inline(h http.Handler) http.Handler {
	if h == nil {
		panic("web: Inline with a nil handler")
	}
	if reflect.TypeOf(h) == timeoutHandler {
		panic("web: Inline(http.TimeoutHandler(h, …)) would block the loop; write http.TimeoutHandler(web.Inline(h), …)")
	}
	return &inline{h}
}

var timeoutHandler = reflect.TypeOf(http.TimeoutHandler(http.NotFoundHandler(), 0, ""))

type inline struct{ h http.Handler }

// ServeHTTP calls the handler if it runs in a task already. On a worker, behind a router or
// middleware that the server does not know, it starts a task and waits for it.
func (in *inline) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	x := exchangeOf(rw, r)
	if x == nil || x.st.l.Owns() {
		in.h.ServeHTTP(rw, r)
		return
	}
	var fault any
	var inside *http.Request
	ended := false
	_ = x.st.await("inline handler", func(done func(error)) {
		x.st.tasks().GoWith(spindle.TaskOptions{Name: r.Method + " " + r.URL.EscapedPath(), Eager: true, Values: r.Context()}, func(ctx context.Context) error {
			defer func() {
				if !ended {
					fault = recover()
				}
				x.scope = nil
				done(nil)
			}()
			x.scope = ctx.(*spindle.Scope)
			defer follow(x.scope, r.Context())()
			inside = r.WithContext(ctx)
			in.h.ServeHTTP(rw, inside)
			ended = true
			return nil
		})
	})
	if inside != nil && r.MultipartForm == nil {
		r.MultipartForm = inside.MultipartForm // for the server to remove its files
	}
	switch {
	case ended:
	case fault == nil:
		runtime.Goexit()
	default:
		panic(fault)
	}
}

// exchangeOf returns the exchange of a request, or nil if it is not one of this package. The
// context leads to it if middleware has replaced the response, as http.TimeoutHandler does, and
// the response if middleware has replaced the context.
func exchangeOf(rw http.ResponseWriter, r *http.Request) *exchange {
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	if w := responseOf(rw); w != nil {
		return w.x
	}
	return nil
}

// follow cancels the scope when ctx ends, until unfollow is called. Middleware may have set
// a deadline in ctx.
func follow(scope *spindle.Scope, ctx context.Context) (unfollow func() bool) {
	if ctx.Err() != nil {
		scope.Cancel(context.Cause(ctx))
	}
	l := spindle.LoopOf(scope)
	return l.Internal().AfterFunc(ctx, func() { scope.Cancel(context.Cause(ctx)) })
}

// router is implemented by http.ServeMux: it returns the handler for a request.
type router interface {
	Handler(*http.Request) (http.Handler, string)
}

// runsInline reports whether the handler of the request is inline.
func (sv *Service) runsInline(x *exchange) bool {
	if sv.mux == nil {
		return sv.inline
	}
	h, _ := sv.mux.Handler(&x.req)
	_, ok := h.(*inline)
	return ok
}
