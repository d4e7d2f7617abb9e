// Package tlsio is TLS without I/O, for the callback model (package transport) and the
// coroutine model (package stream). A Session makes and consumes records; its owner
// moves bytes between the Session and a socket, and does all waiting.
//
//	             ┌─────────────── Session ───────────────┐
//	Encrypt ────▶│ plaintext                     records │────▶ Socket.Send
//	CloseWrite ─▶│              crypto/tls               │
//	Decrypt ◀────│ plaintext                     records │◀──── Feed, Socket.Receive
//	             └───────────────────────────────────────┘
//
// # States
//
//	       Handshake, Step
//	New ───────────────────▶ Handshaking ──────────▶ Open
//	                          ▲  │   │
//	               Feed, then │  │   └── error, Abort ──▶ Failed
//	                continue  └──┘
//	                      needs input
//
// Once a Session is Open, each direction has its own state. For reading that is Input:
//
//	More ──── close_notify from the peer ─────────────────────────▶ Ended
//	 │ └───── end of the connection without close_notify ─────────▶ Truncated
//	 └─────── a bad record, an alert, a failed Receive, a peer
//	          that causes replies and does not read them ─────────▶ Broken
//
// For writing, CloseWrite sends close_notify, after which Encrypt fails. A key update of
// the peer is answered inside Decrypt; the answer goes to Send like any record.
//
// # What a Session waits for
//
// Nothing waits inside a Session that is Open: Decrypt fails with ErrNoInput, and the
// owner calls it again when the socket is readable. Encrypt always succeeds: the owner
// keeps the records that the socket does not take, and calls Encrypt again when all are
// sent, so that the socket limits the writer.
//
// The handshake is different. In crypto/tls it is one call, which cannot be repeated
// after it failed for want of input, so it needs a stack while it waits. Handshake uses
// the caller's stack and calls a function of the owner to wait. Step has a coroutine of
// its own, which suspends where input is missing.
//
// Input is fed during the handshake, and read from the Socket on demand after it. Feeding
// there too would move bytes out of the kernel before the owner has room for their
// plaintext. The peer would not be slowed down, and each connection would need a buffer.
//
// A Session is not safe for concurrent use. docs/design/012-tls.md has the reasons.
package tlsio

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// ErrNoInput is returned by Decrypt when it needs more input, and by Socket.Receive when
// there is none. Because it is a temporary error, crypto/tls allows a read to be retried.
var ErrNoInput net.Error = noInputError{}

type noInputError struct{}

func (noInputError) Error() string   { return "tls: nothing to read yet" }
func (noInputError) Timeout() bool   { return true }
func (noInputError) Temporary() bool { return true }

// ErrNotReading reports a peer that causes replies and does not read them.
var ErrNotReading = errors.New("tls: the peer requests replies and does not read them")

// MaxUnreadReplies is the number of bytes buffered for a peer that it caused itself.
// It allows about a hundred replies to key updates; a well-behaved peer has at most
// two in flight.
const MaxUnreadReplies = 4 << 10

// MaxPlaintext is the number of bytes that Encrypt takes at once.
const MaxPlaintext = 64 << 10

// MaxRecord is the most plaintext that fits into one record.
const MaxRecord = 16 << 10

// Socket is the connection below a Session. Its methods do not wait.
type Socket interface {
	// Receive reads records that have arrived. It fails with ErrNoInput if there
	// are none. It is not called during the handshake.
	Receive(p []byte) (int, error)
	// Send takes records. It keeps those that the socket does not take. In a
	// handshake by Step it is called where Step runs.
	Send(p []byte)
	// LocalAddr and RemoteAddr are for callbacks of a tls.Config, which run where
	// the handshake runs.
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// State is the progress of a Session; see the package comment.
type State uint8

const (
	New State = iota
	Handshaking
	Open
	Failed
)

// Input is what a Session knows about data of the peer.
type Input uint8

const (
	More      Input = iota // more may arrive
	Ended                  // the peer has sent close_notify
	Truncated              // the connection has ended without close_notify
	Broken                 // reading has failed
)

// Session is one side of a TLS connection. Init makes it ready for use.
type Session struct {
	conn       *tls.Conn
	socket     Socket
	handshake  *handshake // nil once the Session is Open
	in         []byte     // fed, and not consumed
	receiveErr error      // of the Socket
	replies    int32      // bytes sent in reply to the peer since Drained
	state      State
	input      Input
	eof        bool // the Socket has returned io.EOF
	buffered   bool // crypto/tls may hold plaintext, or a complete record
	decrypting bool // the current call is Decrypt
	closed     bool // close_notify was sent
}

// Init makes s a session over socket. Side is tls.Client or tls.Server.
func (s *Session) Init(side func(net.Conn, *tls.Config) *tls.Conn, config *tls.Config, socket Socket) {
	*s = Session{socket: socket, handshake: &handshake{}}
	s.conn = side((*wire)(s), config)
}

// State returns the progress of the session.
func (s *Session) State() State { return s.state }

// Input returns the state of reading.
func (s *Session) Input() Input { return s.input }

// Buffered reports whether Decrypt may succeed without input.
func (s *Session) Buffered() bool { return s.buffered }

// ConnectionState returns the negotiated parameters.
func (s *Session) ConnectionState() tls.ConnectionState { return s.conn.ConnectionState() }

// Feed adds records that were received, before those of Socket.Receive. It copies p.
func (s *Session) Feed(p []byte) { s.in = append(s.in, p...) }

// Drained says that the socket has taken all records.
func (s *Session) Drained() { s.replies = 0 }

// Encrypt sends records of p, or of its first MaxPlaintext bytes, and returns how many
// bytes it took.
func (s *Session) Encrypt(p []byte) (int, error) {
	return s.conn.Write(p[:min(len(p), MaxPlaintext)])
}

// CloseWrite sends the close_notify alert, once. It reports whether it did.
func (s *Session) CloseWrite() (bool, error) {
	if s.closed || s.state != Open {
		return false, nil
	}
	s.closed = true
	return true, s.conn.CloseWrite()
}

// Decrypt decrypts input into p. It fails with ErrNoInput if there is too little, and
// with io.EOF at the end; Input distinguishes how the connection ended. It may send
// alerts, and replies to key updates.
func (s *Session) Decrypt(p []byte) (n int, err error) {
	if s.replies > MaxUnreadReplies {
		s.input = Broken
		return 0, ErrNotReading
	}
	s.decrypting = true
	n, err = s.conn.Read(p)
	s.decrypting = false
	switch {
	case err == ErrNoInput:
		if s.buffered = false; n > 0 { // crypto/tls tried to read the next record too
			err = nil
		}
		return n, err
	case err == nil || n > 0: // crypto/tls returns the error again
		s.buffered = true
		return n, nil
	}
	s.buffered = false
	switch {
	case s.receiveErr != nil:
		s.input, err = Broken, s.receiveErr // crypto/tls may have replaced it
	case err == io.EOF && s.eof:
		s.input = Truncated
	case err == io.EOF:
		s.input = Ended
	default:
		s.input = Broken
	}
	return 0, err
}

// wire is a Session as the net.Conn below crypto/tls. crypto/tls holds mutexes while it
// calls the wire, so nothing may wait here, except in the handshake.
type wire Session

// Read returns input.
func (w *wire) Read(p []byte) (n int, err error) {
	s := (*Session)(w)
	for len(s.in) == 0 && s.handshake != nil {
		if err := s.handshake.wait(); err != nil {
			return 0, err
		}
	}
	if len(s.in) > 0 {
		n = copy(p, s.in)
		if s.in = s.in[n:]; len(s.in) == 0 {
			s.in = nil
		}
		return n, nil
	}
	n, err = s.socket.Receive(p)
	switch err {
	case nil, ErrNoInput:
	case io.EOF:
		s.eof = true
	default:
		s.receiveErr = err
	}
	return n, err
}

// Write passes records on.
func (w *wire) Write(p []byte) (int, error) {
	if w.decrypting {
		w.replies += int32(len(p))
	}
	w.socket.Send(p)
	return len(p), nil
}

// Close does nothing: the owner closes the socket.
func (w *wire) Close() error { return nil }

// crypto/tls sets a deadline for a Write that blocks, which this one does not.
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) LocalAddr() net.Addr  { return w.socket.LocalAddr() }
func (w *wire) RemoteAddr() net.Addr { return w.socket.RemoteAddr() }
