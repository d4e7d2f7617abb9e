package ws

import (
	"time"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// receive reads what has come.
func (s *Socket) receive(data []byte) {
	s.state = s.state&^(pinged|doubted) | heard
	for len(data) > 0 && !s.is(over) {
		if s.is(pausedReading) {
			k := s.keep()
			k.unread = append(k.unread, data...)
			return
		}
		n, e, err := s.in.Next(data)
		data = data[n:]
		if err == nil {
			err = s.take(e)
		}
		if err != nil {
			s.fail(err)
		}
	}
}

func (s *Socket) keep() *kept {
	if s.kept == nil {
		s.kept = new(kept)
	}
	return s.kept
}

// take does what an event asks for.
func (s *Socket) take(e wsframe.Event) error {
	switch e.Type {
	case wsframe.Data:
		return s.takeData(e)
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

// countControl keeps the peer from having us busy with nothing.
func (s *Socket) countControl() error {
	if now := uint32(s.Loop().TurnTime() / time.Second); now != s.second {
		s.second, s.controls = now, 0
	}
	if s.controls++; int(s.controls) > s.rules.controls {
		return wsframe.ErrTooManyControls
	}
	return nil
}

// pong answers a ping. While there is no room only the last one is kept to be
// answered, as the protocol allows: nothing piles up.
func (s *Socket) pong(payload []byte) {
	switch {
	case s.is(closing):
	case s.is(pausedWriting):
		k := s.keep()
		k.ping, k.isPing = append(k.ping[:0], payload...), true
	default:
		s.write(wsframe.OpPong, wsframe.Fin, payload)
	}
}

// takeData collects a message and hands it over when it is complete.
func (s *Socket) takeData(e wsframe.Event) error {
	message := e.Payload
	if s.part != nil || !e.Final {
		if s.part == nil {
			s.part = s.st.newPart()
		}
		s.part.bytes = append(s.part.bytes, message...)
		if !e.Final {
			return nil
		}
		message = s.part.bytes
	}
	if e.Compressed {
		inflated, err := s.st.inflate(message, s.rules.limits.Message)
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
	if !s.is(closing) { // else nobody is interested any more
		s.handler.OnMessage(s, Kind(e.Op), message[:len(message):len(message)])
	}
	s.dropPart()
	return nil
}

func (s *Socket) dropPart() {
	if s.part != nil {
		s.st.freePart(s.part)
		s.part = nil
	}
}
