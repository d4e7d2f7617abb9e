package http2

import "golang.org/x/net/http2/hpack"

// onData handles the beginning of a DATA frame: its whole length counts for flow control.
func (c *Conn) onData() (Event, error) {
	f := c.frame
	n := int32(f.length)
	switch {
	case f.id == 0:
		return More, ErrStreamID
	case n > c.recv:
		return More, ErrWindow
	}
	c.recv -= n
	c.left, c.pad, c.at = n, 0, atData
	if f.has(flagPadded) {
		if n == 0 {
			return More, ErrFrameSize
		}
		c.at = atPadLength
	}
	if n == 0 && !f.has(flagEndStream) {
		if err := c.spend(1); err != nil {
			return More, err
		}
	} else {
		c.earn(1)
	}
	s := c.find(f.id)
	code := NoError
	switch {
	case s == nil && !c.begun(f.id):
		return More, ErrIdleStream
	case s == nil:
		c.stream = nil
		c.ConsumeDropped(int(n))
		if c.over(f.id) || c.sh.config.Role == Client || c.knowsReset(f.id) {
			return More, nil
		}
		return c.failStream(f.id, StreamClosed)
	case !s.Receiving():
		code = StreamClosed
	case n > s.recv:
		code = FlowControlError
	default:
		s.recv -= n
		s.unread += n
		c.stream = s
		return More, nil
	}
	c.ConsumeDropped(int(n))
	return c.failStream(f.id, code)
}

func (c *Conn) readPadLength(data []byte) (n int, ok bool, err error) {
	if len(data) == 0 {
		return 0, false, nil
	}
	c.pad = int32(data[0])
	if c.left -= 1 + c.pad; c.left < 0 {
		return 1, false, ErrPadding
	}
	if s := c.stream; s != nil && !s.Closed() {
		c.Consume(s, 1+int(c.pad))
	}
	c.at = atData
	if c.left == 0 && !c.frame.has(flagEndStream) { // empty but for its padding
		return 1, true, c.spend(2)
	}
	return 1, true, nil
}

// readData returns the next piece of a DATA frame.
func (c *Conn) readData(data []byte) (n int, event Event, ok bool) {
	if c.left == 0 {
		c.at = atPadding
		return 0, More, true
	}
	if n = min(len(data), int(c.left)); n == 0 {
		return 0, More, false
	}
	c.left -= int32(n)
	s := c.stream
	if s == nil || s.Closed() {
		c.stream = nil
		return n, More, true
	}
	if s.left >= 0 {
		if s.left -= int64(n); s.left < 0 {
			return n, c.mismatch(s), true
		}
	}
	c.sh.data = data[:n]
	return n, Data, true
}

// mismatch resets a stream with a body that is not as long as its header says.
func (c *Conn) mismatch(s *Stream) Event {
	c.code = ProtocolError
	c.Reject(s, ProtocolError)
	return Failed
}

// readPadding ends a DATA frame.
func (c *Conn) readPadding(data []byte) (n int, event Event, ok bool) {
	n = min(len(data), int(c.pad))
	if c.pad -= int32(n); c.pad > 0 {
		return n, More, false
	}
	c.at = atFrame
	s := c.stream
	if s == nil || s.Closed() || !c.frame.has(flagEndStream) {
		return n, More, true
	}
	if s.left > 0 {
		return n, c.mismatch(s), true
	}
	c.sh.head.reset(true)
	c.peerEnds(s)
	return n, End, true
}

func (c *Conn) onHeaders(payload []byte) (Event, error) {
	if c.frame.id == 0 {
		return More, ErrStreamID
	}
	payload, err := unpad(c.frame, payload)
	if err != nil {
		return More, err
	}
	fault := false
	if c.frame.has(flagPriority) {
		if len(payload) < 5 {
			return More, ErrFrameSize
		}
		fault = dependsOnItself(payload, c.frame.id)
		payload = payload[5:]
	}
	if c.frame.has(flagEndHeaders) {
		return c.onBlock(payload, fault)
	}
	c.ensureRare().block = &block{frame: c.frame, fault: fault, data: append([]byte(nil), payload...)}
	return More, c.checkBlock()
}

func (c *Conn) onContinuation(payload []byte) (Event, error) {
	b := c.block()
	if b == nil || b.frame.id != c.frame.id {
		return More, ErrContinuation
	}
	b.data = append(b.data, payload...)
	b.frames++
	if err := c.checkBlock(); err != nil {
		return More, err
	}
	if !c.frame.has(flagEndHeaders) {
		return More, nil
	}
	c.frame, c.rare.block = b.frame, nil
	return c.onBlock(b.data, b.fault)
}

// maxContinuations is how many frames a header block may have besides what its size allows.
const maxContinuations = 16

// checkBlock limits a header block that is not complete. It cannot be skipped, because the
// next blocks depend on it.
func (c *Conn) checkBlock() error {
	b, limit := c.rare.block, 2*c.sh.config.HeaderBytes
	if len(b.data) > limit || b.frames > maxContinuations+limit/defaultFrame {
		return ErrBlockTooLarge
	}
	return nil
}

// onBlock handles a complete header block. It is decoded whatever becomes of its stream.
func (c *Conn) onBlock(data []byte, fault bool) (Event, error) {
	id := c.frame.id
	s := c.find(id)
	h := &c.sh.head
	own := s != nil && !c.isPeers(id) // a response
	h.reset(s != nil && !(own && s.left == unanswered))
	if err := c.decode(data); err != nil {
		return More, err
	}
	c.ends = c.frame.has(flagEndStream)
	if s != nil {
		return c.onSecondHeader(s, fault || !h.complete(c.sh.config.Role, c.sh.config.ExtendedConnect))
	}
	switch {
	case !c.isPeers(id) || c.sh.config.Role == Client:
		if c.begun(id) {
			return More, c.spend(1) // the response to a request that was given up
		}
		return More, ErrStreamID
	case id <= c.lastPeer:
		if c.knowsReset(id) {
			return More, c.spend(1)
		}
		return More, ErrClosedStream
	case c.over(id):
		return More, c.spend(1) // the GOAWAY has told the peer to try it elsewhere
	}
	c.lastPeer = id
	switch {
	case fault || !h.complete(c.sh.config.Role, c.sh.config.ExtendedConnect):
		return c.failStream(id, ProtocolError)
	case c.ends && h.Length > 0:
		return c.failStream(id, ProtocolError)
	case len(c.streams) >= c.sh.config.MaxStreams:
		return c.failStream(id, RefusedStream)
	}
	c.stream = nil
	return Head, nil
}

// unanswered is Stream.left of a request before its response.
const unanswered = -2

// onSecondHeader handles a header on an open stream: trailers, or a response.
func (c *Conn) onSecondHeader(s *Stream, fault bool) (Event, error) {
	h := &c.sh.head
	switch {
	case !s.Receiving():
		return c.failStream(s.id, StreamClosed)
	case !h.trailers && h.Status/100 == 1 && !fault && !c.ends: // interim
		c.stream = s
		return Head, nil
	case fault, !h.trailers && h.Status/100 == 1, h.trailers && (!c.ends || s.left > 0 || h.TooLarge):
		return c.failStream(s.id, ProtocolError)
	}
	c.stream = s
	if !h.trailers {
		s.left = h.Length
		if c.ends {
			c.peerEnds(s)
		}
		return Head, nil
	}
	c.peerEnds(s)
	return End, nil
}

// refusedBytes is how much of a header block that is refused costs a token. Each byte of it
// may be a field that had to be looked up.
const refusedBytes = 64

// decode decodes a header block into the shared header.
func (c *Conn) decode(data []byte) error {
	if c.decoder == nil {
		c.decoder = hpack.NewDecoder(uint32(c.sh.config.TableBytes), c.sh.emit)
		c.decoder.SetMaxStringLength(max(2*c.sh.config.HeaderBytes, 64<<10)) // less is refused, not the end
	}
	if _, err := c.decoder.Write(data); err != nil {
		return ErrCompression
	}
	if err := c.decoder.Close(); err != nil {
		return ErrCompression
	}
	if h := &c.sh.head; h.TooLarge || h.fault {
		return c.spend(min(len(data)/refusedBytes, calmQuick)) // one that is very large is refused, too
	}
	return nil
}

// over reports whether the peer was told that a stream is not answered.
func (c *Conn) over(id uint32) bool { return c.phase == connLeft && id > c.farewell }

// knowsReset reports whether this side has reset the stream, which the peer may not have known
// when it sent the frame.
func (c *Conn) knowsReset(id uint32) bool {
	if c.rare == nil {
		return false
	}
	for _, r := range c.rare.refused {
		if r == id {
			return true
		}
	}
	return false
}
