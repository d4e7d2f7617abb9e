package wsframe

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// Code is the status code of a Close frame.
type Code uint16

// The codes of RFC 6455 and of its registry.
const (
	NormalClosure      Code = 1000
	GoingAway          Code = 1001
	ProtocolFault      Code = 1002
	UnsupportedData    Code = 1003
	NoStatus           Code = 1005 // never sent: the Close had no code
	AbnormalClosure    Code = 1006 // never sent: the connection ended without a Close
	InvalidData        Code = 1007
	PolicyViolation    Code = 1008
	MessageTooBig      Code = 1009
	MandatoryExtension Code = 1010
	InternalError      Code = 1011
	ServiceRestart     Code = 1012
	TryAgainLater      Code = 1013
	BadGateway         Code = 1014
)

// Sendable reports whether a Close may carry the code.
func (c Code) Sendable() bool {
	switch {
	case c >= 1000 && c <= 1003, c >= 1007 && c <= 1014:
		return true
	}
	return c >= 3000 && c <= 4999
}

// MaxReason is the maximum length of a Close's reason.
const MaxReason = MaxControl - 2

// Errors of AppendClose.
var (
	ErrSendCode   = errors.New("ws: a Close must not carry this code")
	ErrSendReason = errors.New("ws: the reason of a Close is longer than 123 bytes or not UTF-8")
)

// AppendClose appends the payload of a Close. The payload is empty for NoStatus
// without a reason.
func AppendClose(dst []byte, code Code, reason string) ([]byte, error) {
	if code == NoStatus && reason == "" {
		return dst, nil
	}
	if !code.Sendable() {
		return dst, ErrSendCode
	}
	if len(reason) > MaxReason || !utf8.ValidString(reason) {
		return dst, ErrSendReason
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...), nil
}

// parseClose parses the payload of a Close.
func parseClose(p []byte) (code Code, reason []byte, err error) {
	switch len(p) {
	case 0:
		return NoStatus, nil, nil
	case 1:
		return 0, nil, ErrCloseLength
	}
	code, reason = Code(binary.BigEndian.Uint16(p)), p[2:]
	if !code.Sendable() {
		return 0, nil, ErrCloseCode
	}
	if !utf8.Valid(reason) {
		return 0, nil, ErrUTF8
	}
	return code, reason, nil
}
