package web

import "github.com/spindleloop/spindle/transport"

// PauseWriting is called when the peer reads too slowly.
func (c *conn) PauseWriting(*transport.Conn) { c.holdWrites() }

// holdWrites makes handlers wait, and stops reading lean requests, until the peer has
// caught up: when the transport calls ResumeWriting, or at the latest when everything was
// sent. The transport does not report a pause that ends within the same turn.
func (c *conn) holdWrites() {
	if c.output == outputHeld {
		return
	}
	c.timeWrites()
	c.output = outputHeld
	c.tc.AfterFlush(func(err error) {
		if err == nil {
			c.releaseWrites()
		}
	})
}

// timeWrites ends the connection if the peer takes nothing for the write time-out. The
// time-out is set only once: setting it again would restart it.
func (c *conn) timeWrites() {
	if d := c.st.writeTimeout; d > 0 && c.output == outputFree {
		c.output = outputTimed
		c.tc.SetWriteTimeout(d)
	}
}

// ResumeWriting is called when the peer has caught up.
func (c *conn) ResumeWriting(*transport.Conn) { c.releaseWrites() }

func (c *conn) releaseWrites() {
	if c.output == outputHeld {
		c.output = outputTimed
		c.wakeWriters(nil)
		c.proceed()
	}
}

// afterWrites calls fn when output is not held any more, at once if it is not held now.
func (c *conn) afterWrites(fn func(error)) {
	if c.phase == connLost {
		fn(c.cause())
		return
	}
	if c.tc.Unsent() > highWater {
		c.holdWrites()
	}
	if c.output != outputHeld {
		fn(nil)
		return
	}
	e := c.ensureExtra()
	e.writers = append(e.writers, fn)
}

func (c *conn) wakeWriters(err error) {
	if c.extra == nil {
		return
	}
	writers := c.extra.writers
	c.extra.writers = nil
	for _, fn := range writers {
		fn(err)
	}
}

// keep stores data that cannot be parsed yet.
func (c *conn) keep(data []byte) {
	e := c.ensureExtra()
	if e.kept == nil {
		e.kept = c.st.takeBuffer()
	}
	e.kept = append(e.kept, data...)
	if len(e.kept) >= keepLimit {
		c.pauseReading()
	}
}

func (c *conn) hasKept() bool { return c.extra != nil && len(c.extra.kept) > 0 }

func (c *conn) pauseReading() {
	if !c.is(readsPaused) {
		c.marks |= readsPaused
		c.tc.PauseReading()
	}
}

func (c *conn) resumeReading() {
	if c.is(readsPaused) {
		c.marks &^= readsPaused
		c.tc.ResumeReading()
	}
}
