package stream

import "github.com/spindleloop/spindle/internal/probe"

// ProbeSocket describes the connection for an inspector. A connection that no task reads
// from counts as paused.
func (o *owner) ProbeSocket(s *probe.Socket) {
	c := (*Conn)(o)
	c.socket.Probe(s)
	s.Kind = "stream"
	s.ReadPaused = c.reads.holder == nil
	s.WritePaused = c.writes.waiting()
	s.Unsent = loopStateOf(c.loop()).unsent[c]
}

// AbortSocket closes the connection.
func (o *owner) AbortSocket() { _ = (*Conn)(o).Close() }

// ProbeSocket describes the connection for an inspector.
func (o *packetOwner) ProbeSocket(s *probe.Socket) {
	c := (*PacketConn)(o)
	c.socket.Probe(s)
	s.Kind = "packet"
	s.ReadPaused = c.reads.holder == nil
	s.WritePaused = c.writes.waiting()
}

// AbortSocket closes the connection.
func (o *packetOwner) AbortSocket() { _ = (*PacketConn)(o).Close() }
