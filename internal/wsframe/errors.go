package wsframe

import "strconv"

// Error is why a peer's frames are refused: the peer has broken the protocol, or a
// limit.
type Error struct {
	// Code is what to close the connection with.
	Code Code

	text string
}

func (e *Error) Error() string {
	return "ws: " + e.text + " (" + strconv.Itoa(int(e.Code)) + ")"
}

// Text is what is wrong, short enough to be the reason of a Close.
func (e *Error) Text() string { return e.text }

func wrong(text string) *Error { return &Error{ProtocolFault, text} }

// What can be wrong with a frame.
var (
	ErrReservedBits     = wrong("reserved bit set")
	ErrCompressed       = wrong("compressed frame where none may be")
	ErrOpcode           = wrong("unknown opcode")
	ErrNotMasked        = wrong("frame of a client is not masked")
	ErrMasked           = wrong("frame of a server is masked")
	ErrLength           = wrong("length not in its shortest form")
	ErrControlTooLong   = wrong("control frame is longer than 125 bytes")
	ErrControlFragment  = wrong("control frame is fragmented")
	ErrNoMessage        = wrong("continuation without a beginning")
	ErrMessageNotEnded  = wrong("new message before the last has ended")
	ErrCloseLength      = wrong("close frame with half a code")
	ErrCloseCode        = wrong("close code that must not be sent")
	ErrUTF8             = &Error{InvalidData, "text is not UTF-8"}
	ErrDeflate          = &Error{InvalidData, "compressed message is malformed"}
	ErrFrameTooLarge    = &Error{MessageTooBig, "frame is too large"}
	ErrMessageTooLarge  = &Error{MessageTooBig, "message is too large"}
	ErrTooManyFragments = &Error{PolicyViolation, "message has too many fragments"}
	ErrTooManyControls  = &Error{PolicyViolation, "too many control frames"}
)
