// Package frame encodes envelopes for pipes and connections, such as those to the worker
// processes of package relay/process. The documentation of that package describes the form.
// Package pyapp uses short headers as well; see AppendShort.
package frame

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// MaxHeader is the largest header in bytes.
const MaxHeader = 64 << 10

type fields struct {
	Kind        string            `json:"kind"`
	ID          string            `json:"id,omitempty"`
	Seq         uint32            `json:"seq,omitempty"`
	Attempt     uint32            `json:"attempt,omitempty"`
	Subject     string            `json:"subject,omitempty"`
	ReplyTo     string            `json:"reply_to,omitempty"`
	DeadlineUS  int64             `json:"deadline_us,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	Tracestate  string            `json:"tracestate,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// ErrMalformed is the error for bytes that are not a frame.
var ErrMalformed = errors.New("relay: malformed frame")

// Append appends e as a frame to b. A deadline is the time that remains.
func Append(b []byte, e *relay.Envelope) ([]byte, error) {
	h := fields{
		Kind: e.Kind.String(), Seq: e.Seq, Attempt: e.Attempt, Subject: e.Subject, ReplyTo: e.ReplyTo,
		Traceparent: e.Trace.String(), Tracestate: e.Trace.State, Headers: e.Headers,
	}
	if e.ID != 0 || e.Kind == relay.KindRequest { // a worker repeats the ID of a request, whatever it is
		h.ID = strconv.FormatUint(e.ID, 10)
		if e.Token != 0 {
			h.ID += "-" + strconv.FormatUint(e.Token, 10)
		}
	}
	if e.Deadline != 0 {
		h.DeadlineUS = max(e.Deadline.Microseconds(), 1) // 0 would be no limit
	}
	header, err := json.Marshal(&h)
	if err != nil {
		return b, err
	}
	if len(header) > MaxHeader || uint64(len(header))+uint64(len(e.Body))+4 > 1<<31 {
		return b, relay.ErrTooLarge
	}
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(header)+len(e.Body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	b = append(b, header...)
	return append(b, e.Body...), nil
}

// Read reads a frame with a body of at most maxBody bytes. It returns io.EOF if there is nothing to
// read, and an error that wraps ErrMalformed or relay.ErrTooLarge if the bytes are not acceptable.
// After such an error the reader is somewhere inside the frame.
func Read(r io.Reader, maxBody int) (*relay.Envelope, error) {
	var sizes [8]byte
	if _, err := io.ReadFull(r, sizes[:]); err != nil {
		return nil, err
	}
	all, header := binary.BigEndian.Uint32(sizes[:4]), binary.BigEndian.Uint32(sizes[4:])
	switch {
	case header > MaxHeader:
		return nil, fmt.Errorf("%w: a header of %d bytes", relay.ErrTooLarge, header)
	case uint64(all) < uint64(header)+4:
		return nil, fmt.Errorf("%w: lengths %d and %d", ErrMalformed, all, header)
	case uint64(all)-uint64(header)-4 > uint64(maxBody):
		return nil, fmt.Errorf("%w: a body of %d bytes", relay.ErrTooLarge, all-header-4)
	}
	text := make([]byte, header)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, unexpected(err)
	}
	e, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	if e.Body, err = readBody(r, int(all-header-4)); err != nil {
		return nil, unexpected(err)
	}
	return e, nil
}

// readBody reads n bytes. It allocates at most 64 times what has come, because n may be wrong.
func readBody(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	if n == 0 {
		return nil, nil
	}
	body := make([]byte, min(n, step))
	for from := 0; ; {
		if _, err := io.ReadFull(r, body[from:]); err != nil {
			return nil, err
		}
		if from = len(body); from == n {
			return body, nil
		}
		size := min(n, 64*from)
		body = append(make([]byte, 0, size), body...)[:size]
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// mostDeadline keeps a deadline far from overflow.
const mostDeadline = 365 * 24 * time.Hour

func parseHeader(text []byte) (*relay.Envelope, error) {
	if isShort(text) {
		return parseShort(text)
	}
	var h fields
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	e := &relay.Envelope{Seq: h.Seq, Attempt: h.Attempt, Subject: h.Subject, ReplyTo: h.ReplyTo, Headers: h.Headers}
	known := false
	for k := relay.KindRequest; k <= relay.KindCredit; k++ {
		if k.String() == h.Kind {
			e.Kind, known = k, true
		}
	}
	if !known {
		return nil, fmt.Errorf("%w: kind %q", ErrMalformed, h.Kind)
	}
	for _, s := range []string{h.Subject, h.ReplyTo} {
		if s != "" && relay.CheckSubject(s) != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, relay.CheckSubject(s))
		}
	}
	if h.ID != "" {
		id, token, both := strings.Cut(h.ID, "-")
		var err error
		if e.ID, err = strconv.ParseUint(id, 10, 64); err == nil && both {
			e.Token, err = strconv.ParseUint(token, 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: id %q", ErrMalformed, h.ID)
		}
	}
	switch {
	case h.DeadlineUS < 0:
		return nil, fmt.Errorf("%w: deadline_us %d", ErrMalformed, h.DeadlineUS)
	case h.DeadlineUS > mostDeadline.Microseconds():
		e.Deadline = mostDeadline
	default:
		e.Deadline = time.Duration(h.DeadlineUS) * time.Microsecond
	}
	if t, err := tracing.Parse(h.Traceparent); err == nil { // otherwise there is none, as W3C says
		e.Trace, e.Trace.State = t, h.Tracestate
	}
	return e, nil
}
