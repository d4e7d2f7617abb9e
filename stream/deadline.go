package stream

import (
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// directionExtra holds the fields that few connections need.
type directionExtra struct {
	queue   spindle.Lot // tasks that wait to hold the direction
	timer   loop.Timer
	expire  func()
	expired bool
}

func (d *direction) ensureExtra() *directionExtra {
	if d.extra == nil {
		d.extra = &directionExtra{}
		d.extra.expire = func() {
			d.extra.expired = true
			d.wake(os.ErrDeadlineExceeded)
		}
	}
	return d.extra
}

// close ends the current wait because the connection has closed.
func (d *direction) close() {
	if d.extra != nil {
		d.extra.timer.Cancel()
		d.extra.expired = false // net.ErrClosed takes precedence
	}
	d.wake(net.ErrClosed)
}

// contended reports whether a task waits to acquire the direction.
func (d *direction) contended() bool { return d.extra != nil && !d.extra.queue.Empty() }

func (d *direction) expired() bool { return d.extra != nil && d.extra.expired }

// setDeadline makes calls fail after t; the zero Time clears the deadline.
func (d *direction) setDeadline(l *loop.Loop, t time.Time) {
	x := d.ensureExtra()
	x.timer.Cancel()
	x.expired = false
	if t.IsZero() {
		return
	}
	if remaining := t.Sub(l.Internal().Kernel().Wall()); remaining > 0 {
		x.timer = l.CallLater(remaining, x.expire)
		return
	}
	x.expire()
}

// SetDeadline sets the read and write deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadlines("set deadline", t, &c.reads, &c.writes)
}

// SetReadDeadline sets the time after which Read fails with os.ErrDeadlineExceeded,
// including a pending Read. The zero Time means no deadline. It does not wait.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines("set read deadline", t, &c.reads)
}

// SetWriteDeadline sets the deadline for Write, as SetReadDeadline does for Read.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines("set write deadline", t, &c.writes)
}

func (c *Conn) setDeadlines(op string, t time.Time, directions ...*direction) error {
	if c.closed.Load() {
		return c.netError(op, net.ErrClosed)
	}
	set := func() {
		if c.socket.Closed() {
			return
		}
		for _, d := range directions {
			d.setDeadline(c.loop(), t)
		}
	}
	return c.netError(op, runOnLoop(c.loop(), set))
}
