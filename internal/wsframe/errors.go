package wsframe

import "strconv"

// Error is a violation of the protocol or of a limit by the peer.
type Error struct {
	// Code is the status code for the Close that ends the connection.
	Code Code

	text string
}

func (e *Error) Error() string {
	return "ws: " + e.text + " (" + strconv.Itoa(int(e.Code)) + ")"
}

// Text describes the error. It is short enough for the reason of a Close.
func (e *Error) Text() string { return e.text }

func protocolError(text string) *Error { return &Error{ProtocolFault, text} }

// The errors of a Decoder and of its callers.
var (
	ErrReservedBits     = protocolError("reserved bit set")
	ErrCompressed       = protocolError("compressed bit not allowed on this frame")
	ErrOpcode           = protocolError("unknown opcode")
	ErrNotMasked        = protocolError("client frame is not masked")
	ErrMasked           = protocolError("server frame is masked")
	ErrLength           = protocolError("length not in its shortest form")
	ErrControlTooLong   = protocolError("control frame is longer than 125 bytes")
	ErrControlFragment  = protocolError("control frame is fragmented")
	ErrNoMessage        = protocolError("continuation frame without a message")
	ErrMessageNotEnded  = protocolError("new message before the previous one ended")
	ErrCloseLength      = protocolError("close frame with a payload of one byte")
	ErrCloseCode        = protocolError("invalid close code")
	ErrUTF8             = &Error{InvalidData, "text is not UTF-8"}
	ErrDeflate          = &Error{InvalidData, "compressed message is malformed"}
	ErrFrameTooLarge    = &Error{MessageTooBig, "frame is too large"}
	ErrMessageTooLarge  = &Error{MessageTooBig, "message is too large"}
	ErrTooManyFragments = &Error{PolicyViolation, "message has too many fragments"}
	ErrTooManyControls  = &Error{PolicyViolation, "too many control frames"}
)
