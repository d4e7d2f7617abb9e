package ws

import (
	"time"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// receive decodes incoming data.
func (s *Socket) receive(data []byte) {
	s.state = s.state&^(pinged|overdue) | received
	for len(data) > 0 && !s.is(discarding) {
		if s.is(pausedReading) {
			k := s.ensureExtra()
			k.unread = append(k.unread, data...)
			return
		}
		n, e, err := s.in.Next(&s.rules.limits, data)
		data = data[n:]
		if err == nil {
			err = s.handleEvent(e)
		}
		if err != nil {
			s.fail(err)
		}
	}
}

// handleEvent handles a decoded event.
func (s *Socket) handleEvent(e wsframe.Event) error {
	switch e.Type {
	case wsframe.Data:
		return s.handleData(e)
	case wsframe.Ping, wsframe.Pong:
		if err := s.countControl(); err != nil {
			return err
		}
		if e.Type == wsframe.Ping {
			s.pong(e.Payload)
		} else if r, ok := s.handler.(PongReceiver); ok {
			r.OnPong(s, e.Payload)
		}
	case wsframe.Close:
		s.closedByPeer(e.Code, string(e.Payload))
	}
	return nil
}

// countControl limits the rate of control frames.
func (s *Socket) countControl() error {
	if now := uint16(s.conn.Loop().Internal().TurnTime() / time.Second); now != s.second {
		s.second, s.controls = now, 0
	}
	if int(s.controls) >= s.rules.controlLimit {
		return wsframe.ErrTooManyControls
	}
	s.controls++
	return nil
}

// pong answers a ping. While the connection's buffer is full, only the last ping is
// kept to be answered, as the protocol allows, so that nothing accumulates.
func (s *Socket) pong(payload []byte) {
	switch {
	case s.is(closing):
	case s.is(pausedWriting):
		k := s.ensureExtra()
		k.ping, k.hasPing = append(k.ping[:0], payload...), true
	default:
		s.write(wsframe.OpPong, wsframe.Fin, payload)
	}
}

// handleData assembles a message and delivers it when it is complete.
func (s *Socket) handleData(e wsframe.Event) error {
	message := e.Payload
	if !e.Final || s.extra != nil && len(s.extra.message) > 0 {
		k := s.ensureExtra()
		before := len(k.message)
		k.message = append(k.message, message...)
		if !e.Final {
			if e.Compressed && exceeds(k.message, before, s.rules.limits.Message) {
				return wsframe.ErrMessageTooLarge
			}
			return nil
		}
		message = k.message
		defer s.dropMessage()
	}
	if e.Compressed {
		inflated, err := s.rules.st.inflate(message, s.rules.limits.Message)
		switch {
		case err == deflate.ErrTooLarge:
			return wsframe.ErrMessageTooLarge
		case err != nil:
			return wsframe.ErrDeflate
		case e.Op == wsframe.OpText && !utf8.Valid(inflated):
			return wsframe.ErrUTF8
		}
		message = inflated
	}
	if !s.is(closing) { // after our Close, messages are dropped
		s.handler.OnMessage(s, Kind(e.Op), message[:len(message):len(message)])
	}
	return nil
}

// dropMessage discards the fragments of a delivered message.
func (s *Socket) dropMessage() {
	if s.extra != nil {
		s.extra.message = reusable(s.extra.message)
		s.releaseExtra()
	}
}
