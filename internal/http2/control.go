package http2

import "encoding/binary"

func (c *Conn) onPriority(payload []byte) (Event, error) {
	switch {
	case c.frame.id == 0:
		return More, ErrStreamID
	case len(payload) != 5:
		return c.failStream(c.frame.id, FrameSizeError)
	case dependsOnItself(payload, c.frame.id):
		return c.failStream(c.frame.id, ProtocolError)
	}
	return More, c.spend(1)
}

func dependsOnItself(priority []byte, id uint32) bool {
	return binary.BigEndian.Uint32(priority)&^(1<<31) == id
}

func (c *Conn) onPriorityUpdate(payload []byte) (Event, error) {
	switch {
	case c.sh.config.Role == Client:
		return More, ErrUpdate
	case c.frame.id != 0:
		return More, ErrStreamID
	case len(payload) < 4:
		return More, ErrFrameSize
	}
	id := binary.BigEndian.Uint32(payload) &^ (1 << 31)
	if id == 0 {
		return More, ErrStreamID
	}
	if err := c.spend(1); err != nil {
		return More, err
	}
	s := c.find(id)
	if s == nil {
		return More, nil
	}
	s.Urgency, s.Incremental = parsePriority(string(payload[4:]))
	c.stream = s
	return Updated, nil
}

func (c *Conn) onReset(payload []byte) (Event, error) {
	switch {
	case len(payload) != 4:
		return More, ErrFrameSize
	case c.frame.id == 0:
		return More, ErrStreamID
	case !c.begun(c.frame.id):
		return More, ErrIdleStream
	}
	s := c.find(c.frame.id)
	if s == nil {
		return More, c.spend(1)
	}
	if err := c.spend(c.costOfReset()); err != nil {
		return More, err
	}
	c.stream, c.code = s, Code(binary.BigEndian.Uint32(payload))
	c.drop(s)
	return Reset, nil
}

func (c *Conn) onPing(payload []byte) (Event, error) {
	switch {
	case c.frame.id != 0:
		return More, ErrStreamID
	case len(payload) != 8:
		return More, ErrFrameSize
	case c.frame.has(flagAck):
		if string(payload) == ownPing && c.pings > 0 {
			c.pings--
			return Pong, nil
		}
		return More, c.spend(1)
	}
	c.Out = appendPing(c.Out, flagAck, payload)
	return More, c.spend(1)
}

// ownPing is the data of the PINGs that this side sends.
const ownPing = "spindle!"

func (c *Conn) onGoAway(payload []byte) (Event, error) {
	switch {
	case c.frame.id != 0:
		return More, ErrStreamID
	case len(payload) < 8:
		return More, ErrFrameSize
	}
	id := binary.BigEndian.Uint32(payload) &^ (1 << 31)
	if c.departs && id > c.lastID {
		return More, ErrGoAway
	}
	c.lastID, c.departs = id, true
	c.code = Code(binary.BigEndian.Uint32(payload[4:]))
	return Goodbye, c.spend(1)
}

// failStream resets a stream because of a mistake of the peer. That costs the peer as much
// as a reset of its own: otherwise it could make this side reset streams while their handlers run.
func (c *Conn) failStream(id uint32, code Code) (Event, error) {
	if err := c.spend(resetCost); err != nil {
		return More, err
	}
	if c.stream = c.find(id); c.stream == nil {
		c.RejectID(id, code)
		return More, nil
	}
	c.code = code
	c.Reject(c.stream, code)
	return Failed, nil
}
