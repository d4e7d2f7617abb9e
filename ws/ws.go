// Package ws implements WebSocket (RFC 6455) servers and clients, with optional
// compression of messages (permessage-deflate, RFC 7692).
//
// There are two kinds of connection. A Socket delivers events to callbacks, on the
// loop of its connection. While idle it has neither a stack nor a buffer, so a
// process can hold very many. Upgrade, in a handler of package web, and Connect
// create one.
//
//	type echo struct{}
//
//	func (echo) OnOpen(s *ws.Socket)                                   {}
//	func (echo) OnMessage(s *ws.Socket, kind ws.Kind, message []byte) { s.Send(kind, message) }
//	func (echo) OnClose(s *ws.Socket, err error)                       {}
//
//	func handle(w http.ResponseWriter, r *http.Request) {
//		ws.Upgrade(w, r, echo{}, ws.Options{})
//	}
//
// A Conn is for straight-line code, in a task or on a goroutine. Accept returns one,
// in a handler of any server with connections that can be hijacked (web's and
// net/http's), and so does Dial.
//
//	c, err := ws.Dial(ctx, "ws://127.0.0.1:8080/chat", ws.Options{})
//	if err != nil {
//		return err
//	}
//	defer c.Close(ws.NormalClosure, "")
//	if err := c.Write(ctx, ws.Text, []byte("hello")); err != nil {
//		return err
//	}
//	kind, message, err := c.Read(ctx)
//
// # Both kinds
//
// Received text is checked to be UTF-8; the first invalid byte fails the connection.
// Everything that a peer sends has a limit, including inflated bytes. A peer that
// violates the protocol or a limit gets a Close with the reason and a second to read
// it. Then the connection is closed with a *ProtocolError. Pings are answered. If
// the peer has sent a Close, the connection ends with a *CloseError.
//
// # Goroutines
//
// A Socket must be used on its loop, like a transport.Conn. A Socket of another loop
// of the same server is reached with Conn, Loop and Post. Any goroutine may use a
// Conn: one may read while others write.
package ws

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// Kind is the type of a message.
type Kind uint8

// The kinds of message.
const (
	Text   Kind = Kind(wsframe.OpText)
	Binary Kind = Kind(wsframe.OpBinary)
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Text:
		return "text"
	case Binary:
		return "binary"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// op returns the kind's opcode. An unknown kind is a programming error.
func (k Kind) op() wsframe.Op {
	if k != Text && k != Binary {
		panic("ws: " + k.String() + " is not a kind of message")
	}
	return wsframe.Op(k)
}

// Code is the reason code of a Close. Besides those below, codes from 3000 to 3999
// are for libraries and codes from 4000 to 4999 for applications.
type Code = wsframe.Code

// The codes of RFC 6455 that programs compare or send. 1002 is that of a *ProtocolError, and the
// IANA registry has a few more, such as 1012 for a restart.
const (
	NormalClosure   = wsframe.NormalClosure
	GoingAway       = wsframe.GoingAway
	UnsupportedData = wsframe.UnsupportedData
	NoStatus        = wsframe.NoStatus        // never sent: a Close without a code
	AbnormalClosure = wsframe.AbnormalClosure // never sent: no Close was received
	InvalidData     = wsframe.InvalidData
	PolicyViolation = wsframe.PolicyViolation
	MessageTooBig   = wsframe.MessageTooBig
	InternalError   = wsframe.InternalError
)

// ProtocolError describes a peer's violation and holds the code of the Close sent
// because of it.
type ProtocolError = wsframe.Error

// CloseError reports that the peer has sent a Close, on its own or as an answer to
// ours.
type CloseError struct {
	Code   Code
	Reason string
}

func (e *CloseError) Error() string {
	s := "ws: closed by the peer with " + strconv.Itoa(int(e.Code))
	if e.Reason != "" {
		s += ": " + strconv.Quote(e.Reason)
	}
	return s
}

// CodeOf returns the code of a *CloseError or *ProtocolError in err. For all other
// errors it returns AbnormalClosure, as browsers do.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*CloseError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*ProtocolError](err); ok {
		return e.Code
	}
	return AbnormalClosure
}

// Errors of a connection that ended without a Close. A peer that has not answered a ping
// or a Close in time ends the connection with an error that wraps os.ErrDeadlineExceeded.
var (
	// errNoAnswer means that after a ping nothing arrived from the peer in time.
	errNoAnswer = fmt.Errorf("ws: no answer to a ping: %w", os.ErrDeadlineExceeded)

	// errCloseTimeout means that the peer has not answered a Close in time.
	errCloseTimeout = fmt.Errorf("ws: no answer to a Close: %w", os.ErrDeadlineExceeded)

	// ErrSlow means that more than Options.UnsentLimit bytes wait to be sent to the
	// peer.
	ErrSlow = errors.New("ws: the peer reads too slowly")

	// ErrBusy means that another caller is reading, or has a Writer open.
	ErrBusy = errors.New("ws: another read or Writer is in progress")

	errPingTooLong = errors.New("ws: a ping carries at most 125 bytes")
)
