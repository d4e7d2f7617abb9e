package http1

import "io"

// Error is why a message is refused. After one the connection cannot be read any
// further: what follows has no known beginning.
type Error struct {
	// Status is what a server answers with. A client, or a proxy that has got
	// such a response, has no use for it but to answer 502.
	Status int

	text string
	is   error
}

func (e *Error) Error() string { return "http1: " + e.text }

// Unwrap is io.ErrUnexpectedEOF for ErrUnexpectedEOF.
func (e *Error) Unwrap() error { return e.is }

// What can be wrong with a first line.
var (
	ErrRequestLine        = bad("malformed request line")
	ErrMethod             = bad("method is not a token")
	ErrTarget             = bad("malformed request target")
	ErrVersion            = bad("malformed HTTP version")
	ErrVersionUnsupported = refused(505, "HTTP version is neither 1.0 nor 1.1")
	ErrHTTP2              = refused(505, "HTTP/2 connection preface")
	ErrRequestLineTooLong = refused(414, "request line is too long")
	ErrStatusLine         = bad("malformed status line")
	ErrStatusLineTooLong  = bad("status line is too long")
)

// What can be wrong with a line of a header or a trailer section.
var (
	ErrFieldName      = bad("field name is not a token")
	ErrFieldSpace     = bad("space before the colon of a field")
	ErrFieldFold      = bad("folded field line")
	ErrFieldValue     = bad("control character in a field value")
	ErrBareLF         = bad("line ends with LF instead of CRLF")
	ErrHeaderTooLarge = refused(431, "header is too large")
	ErrTooManyFields  = refused(431, "too many fields")
)

// What can be wrong with the meaning of a header.
var (
	ErrHostMissing            = bad("no Host field")
	ErrHostRepeated           = bad("more than one Host field")
	ErrHost                   = bad("malformed Host field")
	ErrContentLength          = bad("malformed Content-Length")
	ErrContentLengthRepeated  = bad("more than one Content-Length")
	ErrTransferEncoding       = bad("malformed Transfer-Encoding, or chunked is not its last coding")
	ErrTransferCoding         = refused(501, "transfer coding other than chunked")
	ErrTransferEncoding10     = bad("Transfer-Encoding in HTTP/1.0")
	ErrLengthWithEncoding     = bad("Content-Length beside Transfer-Encoding")
	ErrTrailerDeclaration     = bad("Trailer names a field that must not be one")
	ErrExpectation            = refused(417, "expectation other than 100-continue")
	ErrBodyTooLarge           = refused(413, "body is too large")
	ErrChunkSize              = bad("malformed chunk size")
	ErrChunkExtension         = bad("control character in a chunk extension")
	ErrChunkExtensionTooLarge = refused(413, "too many bytes of chunk extensions")
	ErrChunkEnd               = bad("chunk data does not end where its size says")
	ErrTrailerField           = bad("field that must not be a trailer")
	ErrTrailerTooLarge        = refused(431, "trailer section is too large")
)

// ErrUnexpectedEOF is for input that ends within a message.
var ErrUnexpectedEOF = &Error{400, "input ends within a message", io.ErrUnexpectedEOF}

// What cannot be written.
var (
	ErrWriteName   = refused(500, "name to write is not a token")
	ErrWriteValue  = refused(500, "value to write has a control character")
	ErrWriteTarget = refused(500, "target or host to write is malformed")
)

func bad(text string) *Error                 { return refused(400, text) }
func refused(status int, text string) *Error { return &Error{status, text, nil} }
