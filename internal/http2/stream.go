package http2

// Stream is one request and its response. The caller allocates it, mostly as part of
// something larger, and passes it to Open.
type Stream struct {
	// Owner is for the caller.
	Owner any
	// Urgency is from 0, the most urgent, to 7, and Incremental says that a part of the
	// response is useful: RFC 9218.
	Urgency     uint8
	Incremental bool

	phase  streamPhase
	kept   bool // in the connection's table
	id     uint32
	send   int32 // bytes of DATA that may be sent; negative after a change of settings
	recv   int32 // bytes of DATA that the peer may send
	unread int32 // received bytes of DATA that were not consumed
	owed   int32 // consumed bytes that the peer may send again, and does not know yet
	left   int64 // bytes of the body that the header promised and that have not come; -1 if unknown
}

// streamPhase is how far a stream is. The package comment draws it.
type streamPhase uint8

const (
	streamIdle     streamPhase = iota
	streamOpen                 // both sides send
	streamHalfPeer             // the peer has ended its side
	streamHalfOwn              // this side has ended
	streamClosed
)

// streamNext has the phases that can follow each phase, as bits.
var streamNext = [...]uint8{
	streamIdle:     1<<streamOpen | 1<<streamHalfPeer | 1<<streamHalfOwn | 1<<streamClosed,
	streamOpen:     1<<streamHalfPeer | 1<<streamHalfOwn | 1<<streamClosed,
	streamHalfPeer: 1 << streamClosed,
	streamHalfOwn:  1 << streamClosed,
	streamClosed:   0,
}

// enter changes the phase. It panics if that is a change that cannot happen.
func (s *Stream) enter(next streamPhase) {
	if streamNext[s.phase]&(1<<next) == 0 {
		panic("http2: internal error: a stream cannot change its phase like this")
	}
	s.phase = next
}

// ID returns the stream's number.
func (s *Stream) ID() uint32 { return s.id }

// Closed reports whether nothing more can be sent or received.
func (s *Stream) Closed() bool { return s.phase == streamClosed }

// Receiving reports whether the peer may send more of its message.
func (s *Stream) Receiving() bool { return s.phase == streamOpen || s.phase == streamHalfOwn }

// Sending reports whether this side may send more of its message.
func (s *Stream) Sending() bool { return s.phase == streamOpen || s.phase == streamHalfPeer }

// Unread returns how many bytes of DATA were received and not consumed.
func (s *Stream) Unread() int { return int(s.unread) }

// Windows returns how many bytes of bodies may be sent and received.
func (s *Stream) Windows() (send, receive int) { return int(s.send), int(s.recv) }

// peerEnds notes that the peer's message is complete. The connection drops the stream if
// that closes it.
func (c *Conn) peerEnds(s *Stream) {
	if s.phase == streamHalfOwn {
		c.drop(s)
		return
	}
	s.enter(streamHalfPeer)
}

// ownEnds notes that this side's message is complete.
func (c *Conn) ownEnds(s *Stream) {
	if s.phase == streamHalfPeer {
		c.drop(s)
		return
	}
	s.enter(streamHalfOwn)
}

// drop closes a stream and removes it from the table.
func (c *Conn) drop(s *Stream) {
	s.enter(streamClosed)
	if s.unread > 0 {
		c.ConsumeDropped(int(s.unread))
		s.unread = 0
	}
	if !s.kept {
		return
	}
	s.kept = false
	i, _ := c.index(s.id)
	copy(c.streams[i:], c.streams[i+1:])
	last := len(c.streams) - 1
	c.streams[last] = nil
	if c.streams = c.streams[:last]; last == 0 && cap(c.streams) > keepStreams {
		c.streams = nil
	}
}

// keepStreams is the capacity of a table that an idle connection keeps.
const keepStreams = 4

// index returns where the stream is in the table, or would be.
func (c *Conn) index(id uint32) (at int, found bool) {
	from, to := 0, len(c.streams)
	for from < to {
		at := int(uint(from+to) / 2)
		switch k := c.streams[at].id; {
		case k == id:
			return at, true
		case k < id:
			from = at + 1
		default:
			to = at
		}
	}
	return from, false
}

// find returns an open stream, or nil.
func (c *Conn) find(id uint32) *Stream {
	if at, found := c.index(id); found {
		return c.streams[at]
	}
	return nil
}

// keep adds a stream to the table. Numbers mostly increase, so that is mostly at the end.
func (c *Conn) keep(s *Stream) {
	at, _ := c.index(s.id)
	c.streams = append(c.streams, nil)
	copy(c.streams[at+1:], c.streams[at:])
	c.streams[at] = s
	s.kept = true
}
