package transport

import (
	"reflect"

	"github.com/spindleloop/spindle/internal/probe"
)

// ProbeSocket describes the connection for an inspector.
func (o *owner) ProbeSocket(s *probe.Socket) {
	c := (*Conn)(o)
	c.socket.Probe(s)
	s.Kind, s.TLS = "transport", c.tls != nil
	s.Counted, s.In, s.Out = true, c.in, c.out
	s.Unsent = c.unsentBytes()
	s.High, s.Low = c.limits()
	s.ReadPaused, s.WritePaused = c.is(pausedReading), c.writing.paused()
	switch {
	case c.phase.closing():
		s.State = "closing"
	case c.is(handshaking):
		s.State = "handshaking"
	}
	probeProtocol(s, c.proto)
}

// AbortSocket ends the connection.
func (o *owner) AbortSocket() { (*Conn)(o).Abort() }

// ProbeSocket describes the connection for an inspector.
func (o *writeOnlyOwner) ProbeSocket(s *probe.Socket) { (*owner)(o).ProbeSocket(s) }

// AbortSocket ends the connection.
func (o *writeOnlyOwner) AbortSocket() { (*Conn)(o).Abort() }

// ProbeSocket describes the endpoint for an inspector.
func (o *endpointOwner) ProbeSocket(s *probe.Socket) {
	e := (*Endpoint)(o)
	e.socket.Probe(s)
	s.Kind = "packet"
	s.Counted, s.In, s.Out = true, e.in, e.out
	s.Unsent = e.queuedBytes
	s.High, s.Low = e.limits()
	s.ReadPaused, s.WritePaused = false, e.paused
	if e.phase.closing() {
		s.State = "closing"
	}
	probeProtocol(s, e.proto)
}

// AbortSocket ends the endpoint.
func (o *endpointOwner) AbortSocket() { (*Endpoint)(o).Abort() }

// probeProtocol describes the protocol: as it describes itself, or by its type.
func probeProtocol(s *probe.Socket, proto any) {
	if p, ok := proto.(probe.Protocol); ok {
		p.ProbeProtocol(s)
	} else if proto != nil {
		s.Protocol = reflect.TypeOf(proto).String()
	}
}
