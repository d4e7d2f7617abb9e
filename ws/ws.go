// Package ws speaks WebSocket (RFC 6455), as server and as client, with messages
// compressed if both sides want it (permessage-deflate, RFC 7692).
//
// There are two forms. A Socket is told of what comes by callbacks, on the loop of
// its connection; while nothing comes it has neither a stack nor a buffer, so that
// very many can wait. It is made by Upgrade in a handler of package web, and by
// Connect.
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
// A Conn is for straight-line code, in a task or on a goroutine. It is made by
// Accept, in a handler of any server whose connections can be hijacked (web's and
// net/http's), and by Dial.
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
// # What holds for both
//
// Text is UTF-8, and is checked with the first byte that makes it something else.
// Everything that a peer sends has a limit, inflated bytes included. A peer that
// breaks the protocol or a limit is told why by a Close, has a second to read it,
// and is cut off; the error is a *ProtocolError. Pings are answered. How a
// connection has ended is told by a *CloseError if the peer has sent a Close.
//
// # Which goroutine
//
// A Socket is for callbacks of its loop, as a transport.Conn is: one of another loop
// of the same server is reached by Socket.Loop and Post. A Conn is for any goroutine:
// one may read while others write.
package ws

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// Kind is what a message is.
type Kind uint8

// The two kinds.
const (
	Text   Kind = Kind(wsframe.OpText)
	Binary Kind = Kind(wsframe.OpBinary)
)

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case Text:
		return "text"
	case Binary:
		return "binary"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// op is the kind's opcode. Another kind than the two is a mistake in the program.
func (k Kind) op() wsframe.Op {
	if k != Text && k != Binary {
		panic("ws: " + k.String() + " is no kind of message")
	}
	return wsframe.Op(k)
}

// Code is why a connection is closed. Besides those below, codes from 3000 to 3999
// are for libraries and those from 4000 to 4999 for everybody.
type Code = wsframe.Code

// The codes of RFC 6455 and of the registry that it began.
const (
	NormalClosure      = wsframe.NormalClosure
	GoingAway          = wsframe.GoingAway
	ProtocolFault      = wsframe.ProtocolFault
	UnsupportedData    = wsframe.UnsupportedData
	NoStatus           = wsframe.NoStatus        // never sent: the Close had no code
	AbnormalClosure    = wsframe.AbnormalClosure // never sent: there was no Close
	InvalidData        = wsframe.InvalidData
	PolicyViolation    = wsframe.PolicyViolation
	MessageTooBig      = wsframe.MessageTooBig
	MandatoryExtension = wsframe.MandatoryExtension
	InternalError      = wsframe.InternalError
	ServiceRestart     = wsframe.ServiceRestart
	TryAgainLater      = wsframe.TryAgainLater
	BadGateway         = wsframe.BadGateway
)

// ProtocolError is what a peer has done wrong, and the code that it was told.
type ProtocolError = wsframe.Error

// CloseError says that the peer has sent a Close, by itself or as the answer to
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

// CodeOf is the code of the peer's Close, or the one that it was told when it broke
// the protocol; AbnormalClosure for all other errors, as browsers have it.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*CloseError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*ProtocolError](err); ok {
		return e.Code
	}
	return AbnormalClosure
}

// Errors of a connection that are nobody's Close.
var (
	// ErrNoAnswer says that the peer answered neither a ping nor with anything
	// else in time. To errors.Is it is os.ErrDeadlineExceeded.
	ErrNoAnswer = fmt.Errorf("ws: no answer to a ping: %w", os.ErrDeadlineExceeded)

	// ErrCloseTimeout says that the peer has not answered a Close in time. To
	// errors.Is it is os.ErrDeadlineExceeded.
	ErrCloseTimeout = fmt.Errorf("ws: no answer to a Close: %w", os.ErrDeadlineExceeded)

	// ErrSlow says that more waits to be sent to the peer than
	// Options.UnsentLimit.
	ErrSlow = errors.New("ws: the peer reads too slowly")

	// ErrBusy says that a message is being read, or written in pieces, by
	// somebody else.
	ErrBusy = errors.New("ws: a message is under way")

	errPingTooLong = errors.New("ws: a ping carries at most 125 bytes")
)
