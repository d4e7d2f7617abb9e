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
	if h := c.h2(); h != nil {
		s.Protocol = "h2"
		s.Streams = h.probe()
		return
	}
	if x := c.x; x != nil && x.w.draft != nil {
		s.HasRequest = true
		x.probe(&s.Request)
	}
}

// probe describes the streams for an inspector.
func (h *h2Conn) probe() *probe.Streams {
	p := &probe.Streams{}
	p.SendWindow, p.ReceiveWindow = h.fc.Windows()
	for _, stream := range h.fc.Streams() {
		s := ownerOf(stream)
		one := probe.Stream{ID: s.ID(), Queued: len(s.pending) - s.at, Unread: s.Unread(), Urgency: s.Urgency}
		one.SendWindow, one.ReceiveWindow = s.Windows()
		if x := s.x; x != nil && x.w.draft != nil {
			one.HasRequest = true
			x.probe(&one.Request)
		}
		p.All = append(p.All, one)
	}
	return p
}

// probe describes a request for an inspector.
func (x *exchange) probe(r *probe.Request) {
	r.Method, r.Target, r.Peer, r.Since = x.method, x.target, x.remote, x.w.since
	switch {
	case x.wire == wireFile:
		r.Phase = "file"
	case x.wire == wireBegun:
		r.Phase = "sending"
	case x.receiving():
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
	if x.w.phase == draftTaken && x.w.s == nil {
		status = http.StatusSwitchingProtocols
	}
	m.Add(status, x.st.l.Time()-x.w.since)
}
