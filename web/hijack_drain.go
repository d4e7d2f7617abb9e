package web

import (
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
	h.st.l.Kernel().Start(h.onShutdown)
	h.onShutdown = nil
}

// OnShutdown calls fn on a goroutine when the server drains, at once if it does already. A
// connection of this package's Hijack has this method for protocols that end a
// conversation in their own words; fn is to see to it that the connection is closed. The
// last call counts.
func (h *hijacked) OnShutdown(fn func()) {
	if fn == nil {
		panic("web: OnShutdown with a nil function")
	}
	l := h.st.l
	set := func() {
		if h.onShutdown = fn; h.drains {
			h.Draining(h.tc)
		}
	}
	if l.Owns() {
		set()
		return
	}
	_ = l.PostWith(loop.DropAtClose, set) // the end of the loop ends the connection
}
