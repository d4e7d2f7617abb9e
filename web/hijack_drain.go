package web

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Draining is called when the server drains. As in net/http, the server does not wait for
// a hijacked connection, which may be used for hours. One whose owner has asked to be told
// (OnShutdown) is waited for, because it is about to be closed.
func (h *hijacked) Draining(tc *transport.Conn) {
	h.drains = true
	if h.onShutdown == nil {
		tc.LeaveServer()
		return
	}
	h.onShutdown()
	h.onShutdown = nil
}

// OnShutdown calls fn when the server drains, at once if it does already: in a task if
// OnShutdown was called in one, otherwise on a goroutine. A connection of this package's
// Hijack has this method for protocols that end a conversation in their own words. fn must
// see to it that the connection is closed. The last call counts.
func (h *hijacked) OnShutdown(fn func()) {
	if fn == nil {
		panic("web: OnShutdown with a nil function")
	}
	st := h.st
	set := func(start func()) {
		if h.onShutdown = start; h.drains {
			h.Draining(h.tc)
		}
	}
	if st.l.Owns() {
		set(func() {
			st.tasks().GoWith(spindle.TaskOptions{Name: "OnShutdown"}, func(context.Context) error {
				fn()
				return nil
			})
		})
		return
	}
	onGoroutine := func() { st.l.Kernel().Start(fn) }
	_ = st.l.PostWith(loop.DropAtClose, func() { set(onGoroutine) }) // the end of the loop ends the connection
}
