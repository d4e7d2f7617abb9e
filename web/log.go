package web

import (
	"net/http"
	"runtime/debug"

	"github.com/spindleloop/spindle/loop"
)

// logPanic tells of a handler that panicked with v, or called runtime.Goexit if that
// is nil.
func (sv *Service) logPanic(v any, remote string) {
	switch v {
	case http.ErrAbortHandler:
		return
	case nil:
		v = loop.ErrGoexit
	}
	sv.server.errorLog().Error("web: handler panicked", "panic", v, "remote", remote, "stack", string(debug.Stack()))
}

func (sv *Service) logAccess(x *exchange) {}
