package web

import (
	"net/http"
	"reflect"

	"github.com/spindleloop/spindle/internal/probe"
)

// ProbeProtocol describes the connection and its request for an inspector. A handler on a
// worker uses the response meanwhile, so its status is not looked at.
func (c *conn) ProbeProtocol(s *probe.Socket) {
	s.Protocol = "http"
	if c.h2() != nil {
		s.Protocol = "h2"
	}
	x := c.x
	if x == nil || x.w.draft == nil {
		return
	}
	s.HasRequest = true
	r := &s.Request
	r.Method, r.Target, r.Peer, r.Since = x.method, x.target, x.remote, x.w.since
	switch {
	case x.wire == wireFile:
		r.Phase = "file"
	case x.wire == wireBegun:
		r.Phase = "sending"
	case c.input == inputBody:
		r.Phase = "body"
	default:
		r.Phase = "handling"
	}
	if x.scope != nil {
		r.Inline, r.Scope = true, reflect.ValueOf(x.scope).Pointer()
		r.Status, r.Written = x.w.status, x.w.written
	}
}

// ProbeProtocol describes the connection for an inspector.
func (h *hijackedConn) ProbeProtocol(s *probe.Socket) { s.Protocol = "hijacked" }

// MeterRequests makes the server count its requests on this loop.
func (st *loopState) MeterRequests(m *probe.RequestMeter) { st.meter = m }

// count counts an answered request.
func (x *exchange) count(m *probe.RequestMeter) {
	status := x.w.status
	if x.w.phase == draftTaken {
		status = http.StatusSwitchingProtocols
	}
	m.Add(status, x.st.l.Time()-x.w.since)
}
