package stream

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// direction is the reading or the writing half of a connection. It admits one call
// at a time and queues the others. Loop goroutine only.
type direction struct {
	holder *coro.Coro      // nil if free; held if its holder runs; the holder while it waits for the socket
	extra  *directionExtra // nil until a second call waits or a deadline is set
}

// held is the holder of a direction that does not wait for the socket.
var held = new(coro.Coro)

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

// acquire waits until the calling task holds the direction. Tasks hold it in the
// order of their calls.
func (d *direction) acquire(ctx context.Context, what string) error {
	if d.holder == nil {
		d.holder = held
		return nil
	}
	// release hands the direction over, so no other task can overtake the queue.
	return d.ensureExtra().queue.Wait(ctx, what)
}

// release hands the direction to the next task in the queue.
func (d *direction) release() {
	d.holder = nil
	if d.extra != nil && d.extra.queue.Wake(1) > 0 {
		d.holder = held
	}
}

// beginWait prepares a wait for the socket by the task that holds the direction. The
// caller parks next. Armed is the error of watching the socket, if that failed.
func (d *direction) beginWait(ctx context.Context, armed error) error {
	if armed != nil {
		return armed
	}
	returned := false
	defer func() {
		if !returned { // a panic, or the end of a task that outlived every cancellation
			d.release()
		}
	}()
	w, err := spindle.NewWaker(ctx)
	returned = true
	if err != nil {
		return err
	}
	d.setWaiter(w)
	return nil
}

// wait parks the task that holds the direction until wake is called.
func (d *direction) wait(ctx context.Context, what string) error {
	if err := d.beginWait(ctx, nil); err != nil {
		return err
	}
	return d.waker().Park(ctx, what, d)
}

// waker returns the Waker of the wait that beginWait has prepared.
func (d *direction) waker() spindle.Waker { return spindle.Waker(d.holder.NextWaker()) }

// waitReadable parks the task that holds d until s may be readable. Conn.read and the
// like do the same inline, because each frame below an idle connection costs stack.
func (d *direction) waitReadable(ctx context.Context, s *socket, what string) error {
	err := s.ResumeReading()
	if err == nil {
		err = d.wait(ctx, what)
	}
	s.PauseReading()
	return err
}

// busy reports whether a call holds the direction.
func (d *direction) busy() bool { return d.holder != nil }

// waiting reports whether the holder waits for the socket.
func (d *direction) waiting() bool { return d.holder != nil && d.holder != held }

// setWaiter makes w the holder of the direction; w waits for the socket next.
func (d *direction) setWaiter(w spindle.Waker) { d.holder = coro.Waker(w).Coro() }

// Abort ends a wait because of a cancellation. It implements spindle.Aborter.
func (d *direction) Abort() bool {
	waiting := d.waiting()
	if waiting {
		d.holder = held
	}
	return waiting
}

// wake ends a wait for the socket with err.
func (d *direction) wake(err error) {
	if d.waiting() {
		c := d.holder
		d.holder = held
		c.Waker().Wake(err)
	}
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
