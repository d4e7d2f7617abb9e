package transport

import (
	"os"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// extra is what few connections ask for.
type extra struct {
	high, low int    // water marks; 0 means the usual ones
	marks     []mark // of AfterFlush

	idle  time.Duration // the longest silence in both directions; 0 for any
	timer loop.Timer
	heard time.Duration // when something was last sent or received
}

func (c *Conn) more() *extra {
	if c.extra == nil {
		c.extra = &extra{}
	}
	return c.extra
}

// SetIdleTimeout ends the connection, with os.ErrDeadlineExceeded, when nothing
// was received or sent for d. Zero or less means never.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.only("SetIdleTimeout")
	if c.is(lost) {
		return
	}
	e := c.more()
	e.timer.Cancel()
	if e.idle = max(d, 0); e.idle > 0 {
		e.heard = c.Loop().Time()
		e.timer = c.Loop().CallLater(e.idle, c.checkIdle)
	}
}

// touch takes note of life. It costs a store; the timer looks at it when it fires.
func (c *Conn) touch() {
	if c.extra != nil {
		c.extra.heard = c.Loop().TurnTime()
	}
}

func (c *Conn) checkIdle() {
	e := c.extra
	silent := c.Loop().Time() - e.heard
	if silent >= e.idle {
		c.lose(c.fault("read", os.ErrDeadlineExceeded))
		return
	}
	e.timer = c.Loop().CallLater(e.idle-silent, c.checkIdle)
}
