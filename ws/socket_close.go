package ws

import (
	"cmp"
	"errors"
	"net"
	"time"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// Close sends a Close after all data that was sent before, and waits for the peer's
// Close, which OnClose reports. From now on no messages are delivered or sent. If
// the peer does not answer in time (see Options.CloseTimeout), the connection is
// aborted. NoStatus with an empty reason sends a Close without a code.
//
// Close fails without any effect if code or reason must not be sent. It fails with
// net.ErrClosed if the Socket is already closing.
func (s *Socket) Close(code Code, reason string) error {
	if s.is(closing|discarding) || s.conn.IsClosing() {
		return net.ErrClosed
	}
	if err := s.sendClose(code, reason); err != nil {
		return err
	}
	s.ResumeReading() // to receive the peer's Close
	s.after(s.rules.closeTimeout, func() { s.abortWith(errCloseTimeout) })
	return nil
}

func (s *Socket) sendClose(code Code, reason string) error {
	payload, err := wsframe.AppendClose(s.rules.st.control[:0], code, reason)
	if err != nil {
		return err
	}
	s.state |= closing
	s.write(wsframe.OpClose, wsframe.Fin, payload)
	return nil
}

// closedByPeer answers the peer's Close, unless that is itself the answer, and lets
// the connection end. As the protocol says, the server closes its end first: the
// TIME_WAIT state is then the server's, and occupies no port of the client.
func (s *Socket) closedByPeer(code Code, reason string) {
	s.setCloseErr(&CloseError{code, reason})
	if !s.is(closing) {
		s.sendClose(code, "")
	}
	s.linger()
	if s.rules.limits.Role == wsframe.Server {
		s.conn.WriteEOF()
	}
}

// fail closes the connection because the peer has violated the protocol, after
// sending a Close with the reason.
func (s *Socket) fail(why error) {
	s.setCloseErr(why)
	if e, ok := errors.AsType[*ProtocolError](why); ok && !s.is(closing) {
		s.sendClose(e.Code, e.Text())
	}
	s.linger()
	s.conn.WriteEOF()
}

// linger drops input until the peer closes, for at most lingerTime.
func (s *Socket) linger() {
	s.state |= discarding
	s.extra = &socketExtra{closeErr: s.extra.closeErr}
	s.after(lingerTime, s.conn.Abort)
}

// after replaces the timer.
func (s *Socket) after(d time.Duration, fn func()) {
	s.timer.Cancel()
	s.timer = s.conn.Loop().CallLater(d, fn)
}

// setPingInterval makes the Socket ping a peer after a silence of at least d and at
// most twice d. If nothing arrives within Options.PingTimeout, or within d if that
// is zero, the connection is aborted with an error that wraps os.ErrDeadlineExceeded. While reading is paused, no
// pings are sent. Zero or less means never.
func (s *Socket) setPingInterval(d time.Duration) {
	if s.is(closing | discarding) {
		return
	}
	if d = max(d, 0); d != s.rules.pingInterval {
		r := *s.rules
		r.pingInterval = d
		s.rules = r.st.share(&r)
	}
	s.timer.Cancel()
	if d > 0 {
		s.state &^= received | pinged | overdue
		s.after(d, s.tick)
	}
}

// tick checks whether data has arrived. Arriving data does not move the timer; it
// only sets a bit.
func (s *Socket) tick() {
	next := s.rules.pingInterval
	switch {
	case s.is(received | pausedReading):
		s.state &^= received | pinged | overdue
	case !s.is(pinged):
		s.state |= pinged
		s.write(wsframe.OpPing, wsframe.Fin, nil)
		next = cmp.Or(s.rules.pingTimeout, next)
	case !s.is(overdue):
		// After a long turn, timers run before the events of data that arrived
		// meanwhile. Let those be read first.
		s.state |= overdue
		next = time.Millisecond
	default:
		s.abortWith(errNoAnswer)
		return
	}
	s.after(next, s.tick)
}
