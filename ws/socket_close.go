package ws

import (
	"errors"
	"net"
	"time"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// Close sends a Close, behind everything that was sent, and waits for the peer's:
// OnClose tells of it. Messages are no longer handed over, nor sent. A peer that
// does not answer in time (see Options.CloseTimeout) is cut off. NoStatus with no
// reason sends a Close without a code.
//
// It fails if code or reason must not be sent, and then does nothing; and with
// net.ErrClosed the second time.
func (s *Socket) Close(code Code, reason string) error {
	if s.is(closing|over) || s.conn.IsClosing() {
		return net.ErrClosed
	}
	if err := s.sendClose(code, reason); err != nil {
		return err
	}
	s.ResumeReading() // to see the peer's
	s.after(s.rules.closeTimeout, func() { s.end(ErrCloseTimeout) })
	return nil
}

func (s *Socket) sendClose(code Code, reason string) error {
	payload, err := wsframe.AppendClose(s.st.control[:0], code, reason)
	if err != nil {
		return err
	}
	s.state |= closing
	s.write(wsframe.OpClose, wsframe.Fin, payload)
	return nil
}

// closedByPeer answers the peer's Close if it is not the answer itself, and lets
// the connection end: the server ends it first, as the protocol has it, so that the
// ports that stay taken for a while are not the server's.
func (s *Socket) closedByPeer(code Code, reason string) {
	s.err = &CloseError{code, reason}
	if !s.is(closing) {
		s.sendClose(code, "")
	}
	s.linger()
	if s.rules.role == wsframe.Server {
		s.conn.WriteEOF()
	}
}

// fail cuts off a peer that has broken the rules, but tells it why first.
func (s *Socket) fail(why error) {
	s.err = why
	if e, ok := errors.AsType[*ProtocolError](why); ok && !s.is(closing) {
		s.sendClose(e.Code, e.Text())
	}
	s.linger()
	s.conn.WriteEOF()
}

// linger waits for the peer's end, and drops what it sends until then.
func (s *Socket) linger() {
	s.state |= over
	s.dropPart()
	s.kept = nil
	s.after(lingerTime, s.conn.Abort)
}

// after replaces the timer.
func (s *Socket) after(d time.Duration, fn func()) {
	s.timer.Cancel()
	s.timer = s.Loop().CallLater(d, fn)
}

// SetPingInterval has a silent peer asked whether it is still there, after d and at
// the latest after twice that. If nothing comes from it in Options.PingTimeout (d,
// if that is zero), the connection is ended with ErrNoAnswer. While reading is
// paused nothing is asked. Zero or less means never.
func (s *Socket) SetPingInterval(d time.Duration) {
	if s.is(closing | over) {
		return
	}
	s.ping = max(d, 0)
	s.timer.Cancel()
	if s.ping > 0 {
		s.state &^= heard | pinged | doubted
		s.after(s.ping, s.tick)
	}
}

// tick looks whether something has come. The timer is not moved by what comes:
// that costs no more than a bit.
func (s *Socket) tick() {
	next := s.ping
	switch {
	case s.is(heard | pausedReading):
		s.state &^= heard | pinged | doubted
	case !s.is(pinged):
		s.state |= pinged
		s.write(wsframe.OpPing, wsframe.Fin, nil)
		if s.rules.pingTimeout > 0 {
			next = s.rules.pingTimeout
		}
	case !s.is(doubted):
		// After a long turn timers come before the news of what has arrived
		// meanwhile: let that be read first.
		s.state |= doubted
		next = time.Millisecond
	default:
		s.end(ErrNoAnswer)
		return
	}
	s.after(next, s.tick)
}
