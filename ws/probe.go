package ws

import "github.com/spindleloop/spindle/internal/probe"

// ProbeProtocol describes the connection for an inspector.
func (p *protocol) ProbeProtocol(s *probe.Socket) { s.Protocol = "websocket" }
