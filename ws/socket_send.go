package ws

import (
	"net"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Send sends a message, now or later; it never waits. Text must be UTF-8, which is
// not checked. It fails with net.ErrClosed once the Socket is closing, and with
// ErrSlow if too much waits to be sent already (see Options.UnsentLimit). The slice
// is the caller's again when it returns.
func (s *Socket) Send(kind Kind, message []byte) error {
	op := kind.op()
	if err := s.canSend(); err != nil {
		return err
	}
	flags := wsframe.Fin
	if s.rules.compresses(len(message)) {
		message = s.st.compress(message, s.rules)
		flags |= wsframe.Compressed
	}
	s.write(op, flags, message)
	return nil
}

// SendPrepared is Send of a message that is sent to many.
func (s *Socket) SendPrepared(m *Prepared) error {
	if err := s.canSend(); err != nil {
		return err
	}
	if s.rules.role == wsframe.Client { // each frame is masked differently
		return s.Send(m.kind, m.message)
	}
	frame := m.plain
	if s.rules.compresses(len(m.message)) {
		frame = m.compressed(s.rules)
	}
	s.conn.Write(frame)
	return nil
}

// Ping sends a ping with up to 125 bytes, which come back by OnPong. Keep-alive
// does not need it: see SetPingInterval.
func (s *Socket) Ping(payload []byte) error {
	if len(payload) > wsframe.MaxControl {
		return errPingTooLong
	}
	if err := s.canSend(); err != nil {
		return err
	}
	s.write(wsframe.OpPing, wsframe.Fin, payload)
	return nil
}

// Unsent is how many bytes wait for room to be sent. It is the bufferedAmount of
// browsers.
func (s *Socket) Unsent() int { return s.conn.Unsent() }

// Full tells whether so much waits to be sent that whoever can should stop sending,
// until OnDrain. The water marks are those of the connection underneath.
func (s *Socket) Full() bool { return s.is(pausedWriting) }

// canSend tells whether there is still somebody who reads.
func (s *Socket) canSend() error {
	if s.is(closing | over) {
		return net.ErrClosed
	}
	if s.conn.Unsent() <= s.rules.unsent {
		if s.conn.IsClosing() {
			return net.ErrClosed
		}
		return nil
	}
	if s.rules.slow == CutOff {
		s.end(ErrSlow)
	}
	return ErrSlow
}

// joined is up to how many bytes of payload are written beside their head: the
// transport gathers small writes. More is sent together with it by one call.
const joined = 4 << 10

// write sends a frame.
func (s *Socket) write(op wsframe.Op, flags wsframe.Flags, payload []byte) {
	st := s.st
	if s.rules.role == wsframe.Client {
		st.frame = wsframe.AppendMaskedFrame(st.frame[:0], op, flags, payload, st.key())
		s.conn.Write(st.frame)
		st.frame = modest(st.frame)
		return
	}
	head := wsframe.AppendHead(st.head[:0], op, flags, len(payload))
	if len(payload) <= joined {
		s.conn.Write(head)
		s.conn.Write(payload)
		return
	}
	st.bufs = [2][]byte{head, payload}
	s.conn.Writev(st.bufs[:])
	st.bufs = [2][]byte{}
}

// compress is a message compressed, lent until the next call.
func (st *station) compress(message []byte, r *rules) []byte {
	st.packed = deflate.Append(modest(st.packed)[:0], message, int(r.level), int(r.window))
	return st.packed
}
