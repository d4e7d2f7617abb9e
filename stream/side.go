package stream

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// side is one direction of a connection: who reads, or writes, and who waits for
// that. Loop goroutine only.
type side struct {
	busy  bool // somebody is in a call
	waits bool // and waits for the socket
	waker spindle.Waker
	more  *sideMore // nil until a second one comes, or a deadline is set
}

// sideMore is what few sides need.
type sideMore struct {
	line    spindle.Lot // who waits until the side is free
	timer   loop.Timer
	expire  func()
	expired bool
}

func (s *side) extra() *sideMore {
	if s.more == nil {
		s.more = &sideMore{}
		s.more.expire = func() {
			s.more.expired = true
			s.wake(os.ErrDeadlineExceeded)
		}
	}
	return s.more
}

// enter makes the side the calling task's, in its turn.
func (s *side) enter(ctx context.Context, what string) error {
	if !s.busy {
		s.busy = true
		return nil
	}
	// Whoever leaves hands the side over, so that nobody can come in between.
	return s.extra().line.Wait(ctx, what)
}

// leave hands the side to the next in line.
func (s *side) leave() {
	if s.more == nil || s.more.line.Wake(1) == 0 {
		s.busy = false
	}
}

// begin begins a wait until the socket is ready, for the task whose turn it is; it
// must park next. Armed is whether the socket could be watched.
func (s *side) begin(ctx context.Context, armed error) error {
	if armed != nil {
		return armed
	}
	returned := false
	defer func() {
		if !returned { // a panic, or the end of a task that outlived every cancellation
			s.leave()
		}
	}()
	w, err := spindle.NewWaker(ctx)
	returned = true
	if err != nil {
		return err
	}
	s.take(w)
	return nil
}

// take makes the side w's, whose wait for the socket comes next.
func (s *side) take(w spindle.Waker) { s.busy, s.waits, s.waker = true, true, w }

// Abort gives a wait up.
func (s *side) Abort() bool {
	waits := s.waits
	s.waits = false
	return waits
}

// wake ends a wait.
func (s *side) wake(err error) {
	if s.waits {
		s.waits = false
		s.waker.Wake(err)
	}
}

// stop is the end of the connection.
func (s *side) stop() {
	if s.more != nil {
		s.more.timer.Cancel()
		s.more.expired = false // that it is closed counts more
	}
	s.wake(net.ErrClosed)
}

func (s *side) expired() bool { return s.more != nil && s.more.expired }

// setDeadline has calls fail once t has come; the zero Time takes that back.
func (s *side) setDeadline(l *loop.Loop, t time.Time) {
	m := s.extra()
	m.timer.Cancel()
	m.expired = false
	if t.IsZero() {
		return
	}
	if left := t.Sub(l.Kernel().Wall()); left > 0 {
		m.timer = l.CallLater(left, m.expire)
		return
	}
	m.expire()
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadlines("set deadline", t, &c.reads, &c.writes)
}

// SetReadDeadline has Read fail with os.ErrDeadlineExceeded once t has come, also
// one that waits. The zero Time means never. It does not wait.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines("set read deadline", t, &c.reads)
}

// SetWriteDeadline is SetReadDeadline for Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines("set write deadline", t, &c.writes)
}

func (c *Conn) setDeadlines(op string, t time.Time, sides ...*side) error {
	if c.closed.Load() {
		return c.fault(op, net.ErrClosed)
	}
	set := func() {
		if c.socket.Closed() {
			return
		}
		for _, s := range sides {
			s.setDeadline(c.loop(), t)
		}
	}
	return c.fault(op, soon(c.loop(), set))
}
