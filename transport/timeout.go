package transport

import (
	"math"
	"os"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// extra is what few connections ask for.
type extra struct {
	high, low int    // water marks; 0 means the usual ones
	marks     []mark // of AfterFlush

	idle, read, write time.Duration // the longest silences; 0 for any

	// One timer serves all three. It is not moved when something happens, which
	// costs a store; when it fires it looks, and is set for what is left. At is
	// when it does, never if it is not set.
	timer loop.Timer
	at    time.Duration
	heard time.Duration // when something was last received
	wrote time.Duration // when something was last sent, or began to wait
}

const never = time.Duration(math.MaxInt64)

func (c *Conn) more() *extra {
	if c.extra == nil {
		c.extra = &extra{at: never}
	}
	return c.extra
}

// SetIdleTimeout ends the connection, with os.ErrDeadlineExceeded, when nothing
// was received or sent for d, or an eighth of it more if bytes wait to be sent. Zero or
// less means never.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.only("SetIdleTimeout")
	c.setTimeout(&c.more().idle, d)
}

// SetReadTimeout ends the connection, with os.ErrDeadlineExceeded, when nothing was
// received for d. The time does not count in which reading is paused, nor that
// after the peer's end. Zero or less means never.
func (c *Conn) SetReadTimeout(d time.Duration) {
	c.only("SetReadTimeout")
	c.setTimeout(&c.more().read, d)
}

// SetWriteTimeout ends the connection, with os.ErrDeadlineExceeded, when bytes wait
// to be sent and none of them could be for d, also while it is being closed. Whether
// they could is looked at eight times in d, so it may take an eighth of d more. Zero or
// less means never.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	c.only("SetWriteTimeout")
	c.setTimeout(&c.more().write, d)
}

func (c *Conn) setTimeout(limit *time.Duration, d time.Duration) {
	if c.is(lost) {
		return
	}
	*limit = max(d, 0)
	now := c.Loop().Time()
	c.extra.heard, c.extra.wrote = now, now
	c.extra.timer.Cancel()
	c.extra.at = never
	c.setTimer(now)
}

// hears takes note of bytes received.
func (c *Conn) hears() {
	if c.extra != nil {
		c.extra.heard = c.Loop().TurnTime()
	}
}

// touch takes note of bytes sent.
func (c *Conn) touch() {
	if c.extra != nil {
		c.extra.wrote = c.Loop().TurnTime()
	}
}

// waits is called when bytes begin to wait, and resumes when reading goes on: now
// a time-out counts that did not.
func (c *Conn) waits() {
	e := c.extra
	if e == nil || e.write == 0 && e.idle == 0 {
		return
	}
	now := c.Loop().Time()
	if e.write > 0 {
		e.wrote = now
	}
	c.setTimer(now)
}

func (c *Conn) resumes() {
	if e := c.extra; e != nil && e.read > 0 {
		e.heard = c.Loop().Time()
		c.setTimer(e.heard)
	}
}

// deadline is the next moment at which the connection is ended unless something
// happens, and for want of what.
func (c *Conn) deadline() (at time.Duration, op string) {
	e := c.extra
	at = never
	limit := func(name string, since, d time.Duration) {
		if d > 0 && since+d > since && since+d < at {
			at, op = since+d, name
		}
	}
	limit("read", max(e.heard, e.wrote), e.idle)
	if !c.is(pausedReading|closing) && !c.socket.Ended() {
		limit("read", e.heard, e.read)
	}
	if c.wantsRoom() {
		limit("write", e.wrote, e.write)
	}
	return at, op
}

// wantsRoom reports whether bytes wait to be sent.
func (c *Conn) wantsRoom() bool { return c.unsent != nil && !c.unsent.empty() }

// probes is into how many parts a time-out is cut while bytes wait to be sent. The system
// tells of room only when there is much of it, so a peer's progress may show only when a
// write is tried: if that were at the deadline alone, bytes that the peer's system took at
// the beginning would double the time.
const probes = 8

// nextProbe is when a write is to be tried next, never if none of the time-outs needs it.
func (c *Conn) nextProbe(now time.Duration) time.Duration {
	e := c.extra
	d := e.write
	if d == 0 || e.idle > 0 && e.idle < d {
		d = e.idle
	}
	if d == 0 || !c.wantsRoom() || now+d < now {
		return never
	}
	return now + max(d/probes, 1)
}

// setTimer has the connection looked at when its deadline comes. A timer that
// fires before that stays, to be moved when it has: that is at most once in the
// time of a time-out.
func (c *Conn) setTimer(now time.Duration) {
	e := c.extra
	at, _ := c.deadline()
	at = min(at, c.nextProbe(now))
	if at >= e.at {
		return
	}
	e.timer.Cancel()
	e.at = at
	e.timer = c.Loop().CallLater(at-now, c.checkTime)
}

func (c *Conn) checkTime() {
	c.extra.at = never
	if at, _ := c.deadline(); at <= c.Loop().Time() || c.wantsRoom() {
		// After a long turn the timer may come before the news of what has
		// arrived meanwhile: ask the system. A write is tried too.
		c.socket.ForgetReadiness()
		if (*owner)(c).SocketReady(); c.is(lost) {
			return
		}
	}
	now := c.Loop().Time()
	if at, op := c.deadline(); at <= now {
		c.lose(c.fault(op, os.ErrDeadlineExceeded))
		return
	}
	c.setTimer(now)
}
