package web

import (
	"context"
	"net/http"
	"runtime"

	"github.com/spindleloop/spindle"
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
	ended := false
	_ = x.st.await("inline handler", func(done func(error)) {
		x.st.tasks().GoWith(spindle.TaskOptions{Name: "request", Eager: true, Values: r.Context()}, func(ctx context.Context) error {
			defer func() {
				if !ended {
					fault = recover()
				}
				x.scope = nil
				done(nil)
			}()
			x.scope = ctx.(*spindle.Scope)
			if x.cut != nil {
				x.scope.Cancel(x.cut)
			}
			in.h.ServeHTTP(rw, r.WithContext(ctx))
			ended = true
			return nil
		})
	})
	switch {
	case ended:
	case fault == nil:
		runtime.Goexit()
	default:
		panic(fault)
	}
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
	probe := http.Request{Method: x.method, Host: x.host, URL: &x.url}
	h, _ := sv.mux.Handler(&probe)
	_, ok := h.(*inline)
	return ok
}
