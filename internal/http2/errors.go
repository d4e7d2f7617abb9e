package http2

import "strconv"

// Code is an error code of RST_STREAM and GOAWAY.
type Code uint32

// The codes.
const (
	NoError            Code = 0x0
	ProtocolError      Code = 0x1
	InternalError      Code = 0x2
	FlowControlError   Code = 0x3
	SettingsTimeout    Code = 0x4
	StreamClosed       Code = 0x5
	FrameSizeError     Code = 0x6
	RefusedStream      Code = 0x7
	Cancel             Code = 0x8
	CompressionError   Code = 0x9
	ConnectError       Code = 0xa
	EnhanceYourCalm    Code = 0xb
	InadequateSecurity Code = 0xc
	HTTP11Required     Code = 0xd
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "code " + strconv.Itoa(int(c))
}

// Error is a mistake of the peer that ends the connection.
type Error struct {
	Code Code
	text string
}

func (e *Error) Error() string { return "http2: " + e.text + " (" + e.Code.String() + ")" }

func protocolError(text string) *Error { return &Error{ProtocolError, text} }

// Mistakes that end the connection.
var (
	ErrPreface       = protocolError("the client does not begin with the preface")
	ErrFirstFrame    = protocolError("the first frame is not SETTINGS")
	ErrFrameSize     = &Error{FrameSizeError, "a frame has a wrong size"}
	ErrFrameTooLarge = &Error{FrameSizeError, "a frame is larger than SETTINGS_MAX_FRAME_SIZE"}
	ErrStreamID      = protocolError("a frame is on a stream that it must not be on")
	ErrIdleStream    = protocolError("a frame is on a stream that was not begun")
	ErrClosedStream  = &Error{StreamClosed, "a header is on a stream that is closed"}
	ErrPadding       = protocolError("padding is longer than its frame")
	ErrContinuation  = protocolError("a header block is interrupted, or continued where there is none")
	ErrPush          = protocolError("PUSH_PROMISE was not allowed")
	ErrUpdate        = protocolError("PRIORITY_UPDATE is sent to servers only")
	ErrSetting       = protocolError("a setting has a value that is not allowed")
	ErrWindow        = &Error{FlowControlError, "a flow control window is exceeded"}
	ErrWindowZero    = protocolError("WINDOW_UPDATE by zero")
	ErrCompression   = &Error{CompressionError, "a header block cannot be decoded"}
	ErrBlockTooLarge = &Error{EnhanceYourCalm, "a header block is far larger than the limit"}
	ErrGoAway        = protocolError("a GOAWAY takes back the refusal of an earlier one")
	ErrFlood         = &Error{EnhanceYourCalm, "too many frames that make work and no progress"}
)
