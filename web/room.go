package web

import "github.com/spindleloop/spindle/transport"

// PauseWriting is told when the peer reads too slowly.
func (c *conn) PauseWriting(tc *transport.Conn) {
	c.flags |= writesPaused
	if d := c.st.writeTimeout; d > 0 {
		tc.SetWriteTimeout(d)
	}
}

// ResumeWriting is told when it has caught up.
func (c *conn) ResumeWriting(tc *transport.Conn) {
	c.flags &^= writesPaused
	c.hasRoom(nil)
	if c.x == nil && !c.is(lingers) {
		c.proceed()
	}
}

// whenRoom calls fn once there is room to write.
func (c *conn) whenRoom(fn func(error)) {
	switch {
	case c.is(gone):
		fn(c.cause())
	case c.tc.Unsent() > highWater || c.is(writesPaused):
		m := c.extra()
		m.room = append(m.room, fn)
	default:
		fn(nil)
	}
}

func (c *conn) hasRoom(err error) {
	if c.more == nil {
		return
	}
	waiting := c.more.room
	c.more.room = nil
	for _, fn := range waiting {
		fn(err)
	}
}
