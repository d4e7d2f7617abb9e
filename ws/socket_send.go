package ws

import (
	"net"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// Send sends a message, now or later; it never waits. Text must be UTF-8; Send does
// not check that. It fails with net.ErrClosed once the Socket is closing, and with
// ErrSlow if too much data is already waiting (see Options.UnsentLimit). It does not
// keep the slice.
func (s *Socket) Send(kind Kind, message []byte) error {
	op := kind.op()
	if err := s.canSend(); err != nil {
		return err
	}
	flags := wsframe.Fin
	if s.rules.compresses(len(message)) {
		message = s.rules.st.compress(message, s.rules)
		flags |= wsframe.Compressed
	}
	s.write(op, flags, message)
	return nil
}

// SendPrepared is Send for a message with many receivers.
func (s *Socket) SendPrepared(m *Prepared) error {
	if err := s.canSend(); err != nil {
		return err
	}
	if s.rules.limits.Role == wsframe.Client { // each client frame has its own mask
		return s.Send(m.kind, m.message)
	}
	frame := m.plain
	if s.rules.compresses(len(m.message)) {
		frame = m.compressedFrame(s.rules)
	}
	s.conn.Write(frame)
	return nil
}

// Ping sends a ping with a payload of up to 125 bytes, which OnPong receives back.
// For keep-alive, use Options.PingInterval instead.
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

// Full reports whether so much data waits to be sent that senders should pause until
// OnResumeWriting. The water marks are those of the underlying connection, Conn, and
// its Unsent is bufferedAmount in browsers.
func (s *Socket) Full() bool { return s.is(pausedWriting) }

// canSend returns an error if the Socket is closing or too much data is waiting.
func (s *Socket) canSend() error {
	if s.is(closing | discarding) {
		return net.ErrClosed
	}
	if s.conn.Unsent() <= s.rules.unsentLimit {
		if s.conn.IsClosing() {
			return net.ErrClosed
		}
		return nil
	}
	if !s.rules.dropSlow {
		s.abortWith(ErrSlow)
	}
	return ErrSlow
}

// maxJoinedPayload is the size up to which head and payload are written separately,
// because the transport joins small writes. A larger payload is written together
// with its head by Writev.
const maxJoinedPayload = 4 << 10

// write sends a frame.
func (s *Socket) write(op wsframe.Op, flags wsframe.Flags, payload []byte) {
	st := s.rules.st
	if s.rules.limits.Role == wsframe.Client {
		st.frame = wsframe.AppendMaskedFrame(st.frame[:0], op, flags, payload, st.maskKey())
		s.conn.Write(st.frame)
		st.frame = reusable(st.frame)
		return
	}
	head := wsframe.AppendHead(st.head[:0], op, flags, len(payload))
	if len(payload) <= maxJoinedPayload {
		s.conn.Write(head)
		s.conn.Write(payload)
		return
	}
	st.bufs = [2][]byte{head, payload}
	s.conn.Writev(st.bufs[:])
	st.bufs = [2][]byte{}
}

// compress returns a compressed message, which is valid until the next call.
func (st *loopState) compress(message []byte, r *rules) []byte {
	st.compressed = deflate.Append(reusable(st.compressed)[:0], message, int(r.level), int(r.window))
	return st.compressed
}
