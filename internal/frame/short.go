package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// A short header is binary. It is for calls that take a few microseconds: for them, most of the work for a frame would be
// a header in JSON. It begins with the kind, a byte that no JSON text begins with:
//
//	kind (1 byte), seq (4), ID (8), deadline in microseconds (8), length of the traceparent (1), traceparent,
//	and for each of Headers: length of the name (1), name, length of the value (1), value
//
// All numbers are big-endian, and all texts are UTF-8, as in JSON.
const shortSize = 1 + 4 + 8 + 8 + 1

// ShortSize is how many bytes are before the body in a frame with a short header that has no texts.
const ShortSize = 8 + shortSize

// AppendShort is Append with a short header, if that can express the envelope: one without Token, Attempt, Subject,
// ReplyTo and trace state, with few and short Headers in UTF-8.
func AppendShort(b []byte, e *relay.Envelope) ([]byte, error) {
	if e.Token != 0 || e.Attempt != 0 || e.Subject != "" || e.ReplyTo != "" || e.Trace.State != "" || len(e.Headers) > 8 {
		return Append(b, e)
	}
	trace := e.Trace.String()
	header := shortSize + len(trace)
	for name, value := range e.Headers { // any order: it is a sum
		if len(name) > math.MaxUint8 || len(value) > math.MaxUint8 || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return Append(b, e)
		}
		header += 2 + len(name) + len(value)
	}
	if uint64(header)+uint64(len(e.Body))+4 > 1<<31 {
		return b, relay.ErrTooLarge
	}
	var due uint64
	if e.Deadline != 0 {
		due = uint64(max(e.Deadline.Microseconds(), 1)) // 0 would be no limit
	}
	b = binary.BigEndian.AppendUint32(b, uint32(4+header+len(e.Body)))
	b = binary.BigEndian.AppendUint32(b, uint32(header))
	b = append(b, byte(e.Kind))
	b = binary.BigEndian.AppendUint32(b, e.Seq)
	b = binary.BigEndian.AppendUint64(b, e.ID)
	b = binary.BigEndian.AppendUint64(b, due)
	b = append(append(b, byte(len(trace))), trace...)
	for name, value := range e.Headers { // any order: the reader makes a map
		b = append(append(b, byte(len(name))), name...)
		b = append(append(b, byte(len(value))), value...)
	}
	return append(b, e.Body...), nil
}

// isShort reports whether a header is not JSON.
func isShort(header []byte) bool { return len(header) > 0 && header[0] < '\t' }

func parseShort(b []byte) (*relay.Envelope, error) {
	if len(b) < shortSize {
		return nil, fmt.Errorf("%w: a short header of %d bytes", ErrMalformed, len(b))
	}
	if relay.Kind(b[0]) > relay.KindCredit {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, relay.Kind(b[0]))
	}
	e := &relay.Envelope{Kind: relay.Kind(b[0]), Seq: binary.BigEndian.Uint32(b[1:]), ID: binary.BigEndian.Uint64(b[5:])}
	e.Deadline = time.Duration(min(binary.BigEndian.Uint64(b[13:]), uint64(mostDeadline.Microseconds()))) * time.Microsecond
	trace, rest, ok := cutText(b[shortSize-1:])
	if t, err := tracing.Parse(trace); err == nil { // otherwise there is none, as W3C says
		e.Trace = t
	}
	for ok && len(rest) > 0 {
		var name, value string
		if name, rest, ok = cutText(rest); ok {
			value, rest, ok = cutText(rest)
		}
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers[name] = value
	}
	if !ok {
		return nil, fmt.Errorf("%w: a short header that is cut or not UTF-8", ErrMalformed)
	}
	return e, nil
}

// cutText returns the text that begins with its length, and what follows. It reports false if the text is cut
// or not UTF-8.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) == 0 || len(b)-1 < int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], utf8.Valid(b[1:n])
}
