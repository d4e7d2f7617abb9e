package web

import "github.com/spindleloop/spindle/transport"

// PauseWriting is told when the peer reads too slowly.
func (c *conn) PauseWriting(*transport.Conn) { c.holdWrites() }

// holdWrites has handlers wait, and no request be read, until the peer has caught up:
// by what transport tells, or at the latest when all was sent. Transport does not tell
// of a pause that was over before it came to that.
func (c *conn) holdWrites() {
	if c.is(writesPaused) {
		return
	}
	c.flags |= writesPaused
	c.timeWrites()
	c.tc.AfterFlush(func(err error) {
		if err == nil {
			c.letWrite()
		}
	})
}

// timeWrites ends the connection if the peer takes nothing for too long. To set the
// time-out again would begin it anew.
func (c *conn) timeWrites() {
	if d := c.st.writeTimeout; d > 0 && !c.is(timesWrites) {
		c.flags |= timesWrites
		c.tc.SetWriteTimeout(d)
	}
}

// ResumeWriting is told when the peer has caught up.
func (c *conn) ResumeWriting(*transport.Conn) { c.letWrite() }

func (c *conn) letWrite() {
	if !c.is(writesPaused) {
		return
	}
	c.flags &^= writesPaused
	c.hasRoom(nil)
	if c.x == nil && !c.is(lingers|switching|gone|yielding) {
		c.proceed()
	}
}

// whenRoom calls fn once there is room to write.
func (c *conn) whenRoom(fn func(error)) {
	if c.is(gone) {
		fn(c.cause())
		return
	}
	if c.tc.Unsent() > highWater {
		c.holdWrites()
	}
	if !c.is(writesPaused) {
		fn(nil)
		return
	}
	m := c.extra()
	m.room = append(m.room, fn)
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
