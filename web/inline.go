package web

import (
	"context"
	"net/http"
	"runtime"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/loopcore"
)

// Inline marks a handler that runs in a task on the loop instead of on a goroutine. It
// must not block: what takes long is for spindle.Blocking. The request's context is
// the task's scope.
func Inline(h http.Handler) http.Handler {
	if h == nil {
		panic("web: Inline with a nil handler")
	}
	return &inline{h}
}

type inline struct{ h http.Handler }

// ServeHTTP runs the handler where it belongs. On a goroutine, where a router has
// brought it that the server knows nothing of, a task is started and waited for.
func (in *inline) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := own(rw)
	if w == nil || w.x.st.l.Owns() {
		in.h.ServeHTTP(rw, r)
		return
	}
	x := w.x
	var fault any
	var inside *http.Request
	ended := false
	_ = x.st.await("inline handler", func(done func(error)) {
		x.st.tasks().GoWith(spindle.TaskOptions{Name: r.Method + " " + r.URL.Path, Eager: true, Values: r.Context()}, func(ctx context.Context) error {
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

// follow cancels the scope when ctx ends, which a middleware may have given a deadline,
// until unfollow is called.
func follow(scope *spindle.Scope, ctx context.Context) (unfollow func() bool) {
	if ctx.Err() != nil {
		scope.Cancel(context.Cause(ctx))
	}
	l := spindle.LoopOf(scope)
	return l.Internal().Kernel().AfterFunc(ctx, func() {
		_ = l.Internal().Post(loopcore.DropAtClose, func() { scope.Cancel(context.Cause(ctx)) })
	})
}

// router is what http.ServeMux has: it tells which handler a request will get.
type router interface {
	Handler(*http.Request) (http.Handler, string)
}

// runsInline tells where the handler of a request wants to run.
func (sv *Service) runsInline(x *exchange) bool {
	if sv.mux == nil {
		return sv.inline
	}
	h, _ := sv.mux.Handler(&x.req)
	_, ok := h.(*inline)
	return ok
}
