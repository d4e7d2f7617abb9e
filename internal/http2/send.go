package http2

import "encoding/binary"

// Open begins the stream of the last Head of a server. With keep the stream is in the
// connection's table until it is closed; a caller that answers before it calls Parse again
// needs no table.
func (c *Conn) Open(s *Stream, keep bool) {
	h := &c.sh.head
	*s = Stream{Owner: s.Owner, id: c.frame.id, send: c.peerWindow, recv: int32(c.sh.config.StreamWindow), left: h.Length}
	s.Urgency, s.Incremental = defaultUrgency, false
	if c.ends {
		s.enter(streamHalfPeer)
	} else {
		s.enter(streamOpen)
	}
	if keep {
		c.keep(s)
	}
}

// Keep adds a stream to the table that was opened without.
func (c *Conn) Keep(s *Stream) { c.keep(s) }

// CanRequest reports whether the peer accepts another request of a client.
func (c *Conn) CanRequest() bool {
	return c.phase <= connOpen && !c.departs && len(c.streams) < int(c.peerMax) && c.lastOwn+2 < 1<<31
}

// Request sends the header of a client's request and opens its stream.
func (c *Conn) Request(s *Stream, block []byte, end bool) {
	c.lastOwn += 2
	*s = Stream{Owner: s.Owner, id: c.lastOwn, send: c.peerWindow, recv: int32(c.sh.config.StreamWindow), left: unanswered}
	s.enter(streamOpen)
	c.keep(s)
	c.SendHead(s, block, end)
}

// SendHead sends a header, or trailers. block is made of AppendStatus and AppendField. With
// end, the message has no body, or no more of it.
func (c *Conn) SendHead(s *Stream, block []byte, end bool) {
	if c.table == tableOwed {
		c.table = tableNone
		block = append([]byte{0x20}, block...) // a table of size 0
	}
	c.Out = appendHeaders(c.Out, s.id, block, end, int(c.peerFrame))
	c.earn(2)
	if end {
		c.ownEnds(s)
	}
}

// Room returns how many bytes of DATA may be sent on a stream now.
func (c *Conn) Room(s *Stream) int { return int(max(0, min(c.send, s.send))) }

// SendData sends p, which must not be longer than Room. With end, it is the last of the
// message.
func (c *Conn) SendData(s *Stream, p []byte, end bool) {
	if end {
		defer c.ownEnds(s)
	}
	for {
		n := min(len(p), int(c.peerFrame))
		c.Out = c.AppendDataHead(c.Out, s, n, end && n == len(p))
		c.Out = append(c.Out, p[:n]...)
		if p = p[n:]; len(p) == 0 {
			break
		}
	}
}

// MaxFrame returns the largest frame that the peer accepts.
func (c *Conn) MaxFrame() int { return int(c.peerFrame) }

// AppendDataHead appends the head of a DATA frame with n bytes, which the caller sends after
// it. It is SendData for large pieces that need not be copied. After a frame with end, the
// caller calls EndData: the end may add a frame to Out, which must not come in between.
func (c *Conn) AppendDataHead(dst []byte, s *Stream, n int, end bool) []byte {
	if n > c.Room(s) && n > 0 {
		panic("http2: more data than the window allows")
	}
	c.send -= int32(n)
	s.send -= int32(n)
	flags := uint8(0)
	if end {
		flags = flagEndStream
	}
	dst = appendFrameHead(dst, n, frameData, flags, s.id)
	c.calm.unread += 2 * int64(n) // the peer returns it on the stream, and on the connection
	c.earn(2)
	return dst
}

// EndData ends this side's message, after AppendDataHead with end.
func (c *Conn) EndData(s *Stream) { c.ownEnds(s) }

// Reject resets a stream. Frames on it that are on their way are ignored.
func (c *Conn) Reject(s *Stream, code Code) {
	if s.Closed() {
		return
	}
	if s.Receiving() || s.phase == streamIdle {
		c.noteReset(s.id)
	}
	c.Out = appendReset(c.Out, s.id, code)
	c.drop(s)
}

// Refuse refuses the request of the last Head, which the peer may repeat. That costs the peer
// as much as a reset, so the connection may end with an error.
func (c *Conn) Refuse() error {
	if c.spend(resetCost) != nil {
		return c.fail(ErrFlood)
	}
	c.RejectID(c.frame.id, RefusedStream)
	return nil
}

// RejectID resets a stream that is not open.
func (c *Conn) RejectID(id uint32, code Code) {
	c.noteReset(id)
	c.Out = appendReset(c.Out, id, code)
}

// keepReset is how many numbers of streams are remembered that this side has reset.
const keepReset = 64

func (c *Conn) noteReset(id uint32) {
	r := c.ensureRare()
	if len(r.refused) < keepReset {
		r.refused = append(r.refused, id)
		return
	}
	copy(r.refused, r.refused[1:])
	r.refused[keepReset-1] = id
}

// Ping sends a PING. The answer is the event Pong.
func (c *Conn) Ping() {
	c.pings++
	c.Out = appendPing(c.Out, 0, []byte(ownPing))
}

// Leave announces that the connection ends soon. The event Pong comes when the peer knows it.
func (c *Conn) Leave() {
	c.enter(connLeaving)
	c.Out = appendGoAway(c.Out, largestWindow, NoError, "")
	c.Ping()
}

// LeaveFinally says which requests are answered: those that have come. Others are ignored
// from now on.
func (c *Conn) LeaveFinally(code Code) {
	c.enter(connLeft)
	c.farewell = c.lastPeer
	c.Out = appendGoAway(c.Out, c.lastPeer, code, "")
}

// Consume says that n bytes of a body were used, or will never be. The peer may send as much
// again, and is told in steps. What is left when a stream closes is consumed then.
func (c *Conn) Consume(s *Stream, n int) {
	if s.Closed() {
		return
	}
	s.unread -= int32(n)
	c.ConsumeDropped(n)
	if !s.Receiving() {
		return
	}
	if s.owed += int32(n); int(s.owed) >= c.sh.config.StreamWindow/4 {
		c.Out = appendWindow(c.Out, s.id, int(s.owed))
		s.recv += s.owed
		s.owed = 0
	}
}

// ConsumeDropped is Consume for bytes that no stream counts.
func (c *Conn) ConsumeDropped(n int) {
	if c.owed += int32(n); int(c.owed) >= c.sh.config.ConnWindow/4 {
		c.Out = appendWindow(c.Out, 0, int(c.owed))
		c.recv += c.owed
		c.owed = 0
	}
}

// Windows returns how many bytes of bodies may be sent and received on all streams together.
func (c *Conn) Windows() (send, receive int) { return int(c.send), int(c.recv) }

func (c *Conn) onWindow(payload []byte) (Event, error) {
	if len(payload) != 4 {
		return More, ErrFrameSize
	}
	n := int64(binary.BigEndian.Uint32(payload) &^ (1 << 31))
	id := c.frame.id
	if err := c.spendOnWindow(n); err != nil {
		return More, err
	}
	if id == 0 {
		switch {
		case n == 0:
			return More, ErrWindowZero
		case int64(c.send)+n > largestWindow:
			return More, ErrWindow
		}
		c.send += int32(n)
		c.stream = nil
		return Writable, nil
	}
	if !c.begun(id) {
		return More, ErrIdleStream
	}
	s := c.find(id)
	switch {
	case n == 0:
		return c.failStream(id, ProtocolError)
	case s == nil:
		return More, nil
	case int64(s.send)+n > largestWindow:
		return c.failStream(id, FlowControlError)
	}
	s.send += int32(n)
	c.stream = s
	return Writable, nil
}
