package http1

import "io"

// Error is the reason why a message is refused. After an error the connection cannot be
// read any further, because the beginning of the next message is unknown.
type Error struct {
	// Status is the status that a server answers with. It means nothing for an
	// invalid response: a proxy answers 502 for that.
	Status int

	text string
	err  error
}

func (e *Error) Error() string { return "http1: " + e.text }

// Unwrap returns io.ErrUnexpectedEOF for ErrUnexpectedEOF, and nil for other errors.
func (e *Error) Unwrap() error { return e.err }

// Errors in a first line.
var (
	ErrRequestLine        = badRequest("malformed request line")
	ErrMethod             = badRequest("method is not a token")
	ErrTarget             = badRequest("malformed request target")
	ErrVersion            = badRequest("malformed HTTP version")
	ErrVersionUnsupported = newError(505, "HTTP version is neither 1.0 nor 1.1")
	ErrHTTP2              = newError(505, "HTTP/2 connection preface")
	ErrRequestLineTooLong = newError(414, "request line is too long")
	ErrStatusLine         = badRequest("malformed status line")
	ErrStatusLineTooLong  = badRequest("status line is too long")
)

// Errors in a line of a header or trailer section.
var (
	ErrFieldName      = badRequest("field name is not a token")
	ErrFieldSpace     = badRequest("space before the colon of a field")
	ErrFieldFold      = badRequest("folded field line")
	ErrFieldValue     = badRequest("control character in a field value")
	ErrBareLF         = badRequest("line ends with LF instead of CRLF")
	ErrHeaderTooLarge = newError(431, "header is too large")
	ErrTooManyFields  = newError(431, "too many fields")
)

// Errors in the meaning of a header and in a body.
var (
	ErrHostMissing            = badRequest("no Host field")
	ErrHostRepeated           = badRequest("more than one Host field")
	ErrHost                   = badRequest("malformed Host field")
	ErrContentLength          = badRequest("malformed Content-Length")
	ErrContentLengthRepeated  = badRequest("more than one Content-Length")
	ErrTransferEncoding       = badRequest("malformed Transfer-Encoding, or chunked is not its last coding")
	ErrTransferCoding         = newError(501, "transfer coding other than chunked")
	ErrTransferEncoding10     = badRequest("Transfer-Encoding in HTTP/1.0")
	ErrLengthWithEncoding     = badRequest("Content-Length beside Transfer-Encoding")
	ErrTrailerDeclaration     = badRequest("Trailer names a field that must not be a trailer")
	ErrExpectation            = newError(417, "expectation other than 100-continue")
	ErrBodyTooLarge           = newError(413, "body is too large")
	ErrChunkSize              = badRequest("malformed chunk size")
	ErrChunkExtension         = badRequest("control character in a chunk extension")
	ErrChunkExtensionTooLarge = newError(413, "too many bytes of chunk extensions")
	ErrChunkEnd               = badRequest("chunk data does not end where its size says")
	ErrTrailerField           = badRequest("field that must not be a trailer")
	ErrTrailerTooLarge        = newError(431, "trailer section is too large")
)

// ErrUnexpectedEOF is the error for input that ends within a message.
var ErrUnexpectedEOF = &Error{400, "input ends within a message", io.ErrUnexpectedEOF}

// Errors of the functions that write.
var (
	ErrWriteName   = newError(500, "name to write is not a token")
	ErrWriteValue  = newError(500, "value to write has a control character")
	ErrWriteTarget = newError(500, "target or host to write is malformed")
)

func badRequest(text string) *Error           { return newError(400, text) }
func newError(status int, text string) *Error { return &Error{status, text, nil} }
