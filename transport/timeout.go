package transport

import (
	"math"
	"os"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// extra holds state that few connections need. It is allocated on first use.
type extra struct {
	high, low    int // water marks; 0 means the defaults
	flushWaiters []flushWaiter

	idle, read, write time.Duration // timeouts; 0 means none

	// One timer serves all three timeouts. Activity does not move it, which would
	// cost more than the store that records it. When the timer fires it checks
	// the recorded times, and is set again for the rest.
	timer        loop.Timer
	timerAt      time.Duration // when timer fires; never if it is not set
	lastReceived time.Duration
	lastSent     time.Duration // when bytes were last sent or first queued
}

const never = time.Duration(math.MaxInt64)

// ensureExtra returns c.extra, which it allocates if necessary.
func (c *Conn) ensureExtra() *extra {
	if c.extra == nil {
		c.extra = &extra{timerAt: never}
	}
	return c.extra
}

// SetIdleTimeout ends the connection with os.ErrDeadlineExceeded when nothing was
// received or sent for d. While bytes are unsent it may take an eighth of d longer. Zero
// or less means no timeout.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.checkLoop("SetIdleTimeout")
	c.setTimeout(&c.ensureExtra().idle, d)
}

// SetReadTimeout ends the connection with os.ErrDeadlineExceeded when nothing was
// received for d. Time during which reading is paused does not count, nor does time
// after EOF. Zero or less means no timeout.
func (c *Conn) SetReadTimeout(d time.Duration) {
	c.checkLoop("SetReadTimeout")
	c.setTimeout(&c.ensureExtra().read, d)
}

// SetWriteTimeout ends the connection with os.ErrDeadlineExceeded when bytes are unsent
// and none could be sent for d, also while the connection is closing. Progress is
// checked eight times in d, so it may take an eighth of d longer. Zero or less means no
// timeout.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	c.checkLoop("SetWriteTimeout")
	c.setTimeout(&c.ensureExtra().write, d)
}

func (c *Conn) setTimeout(limit *time.Duration, d time.Duration) {
	if c.phase.lost() {
		return
	}
	*limit = max(d, 0)
	now := c.Loop().Time()
	c.extra.lastReceived, c.extra.lastSent = now, now
	c.extra.timer.Cancel()
	c.extra.timerAt = never
	c.setTimer(now)
}

// noteReceived records that bytes were received.
func (c *Conn) noteReceived() {
	if c.extra != nil {
		c.extra.lastReceived = c.Loop().Internal().TurnTime()
	}
}

// noteSent records that bytes were sent.
func (c *Conn) noteSent() {
	if c.extra != nil {
		c.extra.lastSent = c.Loop().Internal().TurnTime()
	}
}

// noteQueued is called when the send queue becomes non-empty: the write timeout starts.
func (c *Conn) noteQueued() {
	e := c.extra
	if e == nil || e.write == 0 && e.idle == 0 {
		return
	}
	now := c.Loop().Time()
	if e.write > 0 {
		e.lastSent = now
	}
	c.setTimer(now)
}

// noteResumed is called by ResumeReading: the read timeout starts.
func (c *Conn) noteResumed() {
	if e := c.extra; e != nil && e.read > 0 {
		e.lastReceived = c.Loop().Time()
		c.setTimer(e.lastReceived)
	}
}

// deadline returns when the connection ends unless there is activity, and the operation
// that then has timed out.
func (c *Conn) deadline() (at time.Duration, op string) {
	e := c.extra
	at = never
	limit := func(name string, since, d time.Duration) {
		if d > 0 && since+d > since && since+d < at {
			at, op = since+d, name
		}
	}
	limit("read", max(e.lastReceived, e.lastSent), e.idle)
	if !c.is(pausedReading) && !c.phase.closing() && !c.socket.Ended() {
		limit("read", e.lastReceived, e.read)
	}
	if c.hasUnsent() {
		limit("write", e.lastSent, e.write)
	}
	return at, op
}

// hasUnsent reports whether the send queue holds anything.
func (c *Conn) hasUnsent() bool { return c.unsent != nil && !c.unsent.empty() }

// probes is how many times a write is tried in the time of a timeout while bytes are
// unsent. The system reports a socket writable only when much of its buffer is free, so
// progress may show only when a write is tried. With a try at the deadline alone, bytes
// that the peer's system took at the beginning would double the timeout.
const probes = 8

// nextProbe returns when to try the next write, or never if no timeout needs it.
func (c *Conn) nextProbe(now time.Duration) time.Duration {
	e := c.extra
	d := e.write
	if d == 0 || e.idle > 0 && e.idle < d {
		d = e.idle
	}
	if d == 0 || !c.hasUnsent() || now+d < now {
		return never
	}
	return now + max(d/probes, 1)
}

// setTimer makes sure that checkTimeouts runs at the deadline. A timer that fires
// earlier stays, and is set again when it fires; that happens at most once in the time
// of a timeout.
func (c *Conn) setTimer(now time.Duration) {
	e := c.extra
	at, _ := c.deadline()
	at = min(at, c.nextProbe(now))
	if at >= e.timerAt {
		return
	}
	e.timer.Cancel()
	e.timerAt = at
	e.timer = c.Loop().CallLater(at-now, c.checkTimeouts)
}

func (c *Conn) checkTimeouts() {
	c.extra.timerAt = never
	if at, _ := c.deadline(); at <= c.Loop().Time() || c.hasUnsent() {
		// After a long turn the timer may fire before the events of bytes that
		// have arrived in time, so read from the system. A write is tried too.
		c.socket.ForgetReadiness()
		if c.proceed(); c.phase.lost() {
			return
		}
	}
	now := c.Loop().Time()
	if at, op := c.deadline(); at <= now {
		c.lose(c.opError(op, os.ErrDeadlineExceeded))
		return
	}
	c.setTimer(now)
}
