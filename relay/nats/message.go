package nats

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// Names of headers.
const (
	relayHeader = "Relay"
	traceHeader = "traceparent"
	stateHeader = "tracestate"
	errorHeader = "Relay-Error" // the code of a failure

	// Of the server's answer to a request that no subscription takes.
	statusHeader = "Status"
	noResponders = "503"
)

// inboxPrefix begins the addresses of Callers, which have one more part. On the wire a reply
// subject ends with the ID and the token of the call, so that an answer without the
// package's header, or the server's own, finds its call. In a request, the rest of the envelope is between
// them: headers are the most expensive part of a small message. Clients and servers read every
// byte of a subject, so numbers are short.
//
//	_inbox.3fe2…                  the address of a Caller
//	_inbox.3fe2….gIDh….42-9z…     the reply subject of request 42
//	_inbox.3fe2….42-9z…           the same of a request that is stored
//
// The module spindle.relay.nats in Python reads and writes the same messages.
//
// Answers are published to the reply subject as it is: a server with allow_responses lets
// workers publish there and nowhere else.
const inboxPrefix = "_inbox."

// callBase is the base of the ID and the token of a call in text.
const callBase = 36

// appendCall appends the ID and the token of a call to b.
func appendCall(b []byte, e *relay.Envelope) []byte {
	b = strconv.AppendUint(b, e.ID, callBase)
	if e.Token != 0 {
		b = strconv.AppendUint(append(b, '-'), e.Token, callBase)
	}
	return b
}

// parseCall is the opposite of appendCall.
func parseCall(e *relay.Envelope, s string) (err error) {
	id, token, both := strings.Cut(s, "-")
	if e.ID, err = strconv.ParseUint(id, callBase, 64); err == nil && both {
		e.Token, err = strconv.ParseUint(token, callBase, 64)
	}
	if err != nil {
		return fmt.Errorf("relay/nats: %q is not the ID of a call", s)
	}
	return nil
}

// encode makes m the message of an envelope. The reply subject of one that is stored is in
// the header, because JetStream uses that of the message.
func encode(m *nats.Msg, e *relay.Envelope, stored bool) error {
	if err := checkSubject(e.Subject); err != nil {
		return err
	}
	if err := checkDelay(e, stored); err != nil {
		return err
	}
	m.Subject, m.Data = e.Subject, e.Body
	if isAddress(e.Subject) {
		m.Subject = withCall(e.Subject, e)
	}
	switch {
	case e.Kind == relay.KindReply && e.Seq == 0: // the caller knows the rest
	case e.Kind == relay.KindRequest && isAddress(e.ReplyTo) && !stored:
		m.Reply = replySubject(e)
	default:
		replyTo := e.ReplyTo
		switch {
		case e.Kind == relay.KindRequest && replyTo != "" && !stored:
			m.Reply, replyTo = replyTo, "" // the server answers there if there is no worker
		case e.Kind == relay.KindRequest && isAddress(replyTo):
			replyTo = withCall(replyTo, e)
		}
		m.Header = nats.Header{relayHeader: {encodeFields(e, replyTo)}}
		if e.Trace != (tracing.Context{}) {
			m.Header[traceHeader] = []string{e.Trace.String()}
		}
	}
	if e.Kind == relay.KindRequest && e.Trace.State != "" && carries(e.Trace.State) {
		if m.Header == nil {
			m.Header = make(nats.Header, 1+len(e.Headers))
		}
		m.Header[stateHeader] = []string{e.Trace.State}
	}
	if e.ReplyTo != "" {
		if err := checkSubject(e.ReplyTo); err != nil {
			return err
		}
	}
	for name, value := range e.Headers {
		if !sendable(name, value) {
			return fmt.Errorf("%w: %q", relay.ErrHeader, name)
		}
		if m.Header == nil {
			m.Header = make(nats.Header, len(e.Headers))
		}
		m.Header[name] = []string{value}
	}
	return nil
}

// isInbox reports whether a subject is the address of a Caller, or a reply subject.
func isInbox(subject string) bool { return strings.HasPrefix(subject, inboxPrefix) }

// isAddress reports whether a subject is the address of a Caller, without a call.
func isAddress(subject string) bool {
	return isInbox(subject) && strings.IndexByte(subject[len(inboxPrefix):], '.') < 0
}

// withCall returns the subject for answers to a call at an address.
func withCall(address string, e *relay.Envelope) string {
	var buf [96]byte
	return string(appendCall(append(append(buf[:0], address...), '.'), e))
}

// replySubject returns the reply subject of a request, which carries its numbers and trace.
func replySubject(e *relay.Envelope) string {
	var fields [64]byte
	b := binary.AppendUvarint(fields[:0], micros(e))
	b = binary.AppendUvarint(b, uint64(e.Seq))
	b = binary.AppendUvarint(b, uint64(e.Attempt))
	if e.Trace.ID != [16]byte{} {
		b = append(b, e.Trace.ID[:]...)
		b = append(b, e.Trace.Span[:]...)
		b = append(b, e.Trace.Flags)
	}
	var buf [160]byte
	s := append(append(buf[:0], e.ReplyTo...), '.')
	s = base64.RawURLEncoding.AppendEncode(s, b)
	return string(appendCall(append(s, '.'), e))
}

// parseReplySubject is the opposite of replySubject.
func parseReplySubject(e *relay.Envelope, s string) error {
	_, rest, _ := cutInbox(s)
	coded, call, whole := strings.Cut(rest, ".")
	if !whole { // of a request that is not from a Caller of this bus
		return parseCall(e, rest)
	}
	var buf [96]byte
	b := append(buf[:0], coded...)
	b, err := base64.RawURLEncoding.AppendDecode(b[:0], b)
	if err != nil {
		return fmt.Errorf("relay/nats: malformed reply subject %q", s)
	}
	var n [3]uint64
	for i := range n {
		var size int
		if n[i], size = binary.Uvarint(b); size <= 0 || i > 0 && n[i] > math.MaxUint32 {
			return fmt.Errorf("relay/nats: malformed reply subject %q", s)
		}
		b = b[size:]
	}
	if parseCall(e, call) != nil || len(b) != 0 && len(b) != 25 || n[0] > maxMicros {
		return fmt.Errorf("relay/nats: malformed reply subject %q", s)
	}
	if len(b) == 25 {
		copy(e.Trace.ID[:], b)
		copy(e.Trace.Span[:], b[16:])
		e.Trace.Flags = b[24]
	}
	e.Deadline, e.Seq, e.Attempt = time.Duration(n[0])*time.Microsecond, uint32(n[1]), uint32(n[2])
	return nil
}

// cutInbox splits a subject of the wire after the address of a Caller.
func cutInbox(s string) (address, rest string, found bool) {
	if i := strings.IndexByte(s[len(inboxPrefix):], '.'); i >= 0 {
		i += len(inboxPrefix)
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// maxMicros is the longest deadline in microseconds.
const maxMicros = math.MaxInt64 / 1000

// micros returns the deadline of an envelope. Less than a microsecond is one, even if the
// deadline has passed: 0 is no limit.
func micros(e *relay.Envelope) uint64 {
	if e.Deadline == 0 {
		return 0
	}
	return uint64(max(1, e.Deadline.Microseconds()))
}

// encodeFields returns the value of the header Relay.
func encodeFields(e *relay.Envelope, replyTo string) string {
	fields := make([]byte, 0, 64+len(replyTo))
	fields = append(fields, e.Kind.String()...)
	fields = appendCall(append(fields, ' '), e)
	for _, n := range [...]uint64{uint64(e.Seq), uint64(e.Attempt), micros(e)} {
		fields = strconv.AppendUint(append(fields, ' '), n, 10)
	}
	if replyTo != "" {
		fields = append(append(fields, ' '), replyTo...)
	}
	return string(fields)
}

// decode returns a message as an envelope.
func decode(m *nats.Msg) (*relay.Envelope, error) {
	e := &relay.Envelope{Kind: relay.KindRequest, Attempt: 1, Subject: m.Subject, ReplyTo: m.Reply}
	if len(m.Data) > 0 {
		e.Body = m.Data
	}
	switch {
	case isInbox(m.Subject): // of a worker, the server, or a program without relay
		if err := parseCall(e, m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]); err != nil {
			return nil, err
		}
		e.Kind, e.ReplyTo, e.Attempt = relay.KindReply, "", 0
		e.Subject, _, _ = cutInbox(m.Subject)
		if len(m.Data) == 0 && m.Header != nil && m.Header.Get(statusHeader) == noResponders {
			e.ReplyTo = e.Subject
			return relay.NewFailure(e, "no-responder", "no worker serves the subject"), nil
		}
	case isInbox(m.Reply):
		if err := parseReplySubject(e, m.Reply); err != nil {
			return nil, err
		}
	}
	state := ""
	for name, values := range m.Header {
		switch value := values[0]; name {
		case relayHeader:
			if err := decodeFields(e, value); err != nil {
				return nil, err
			}
		case traceHeader:
			e.Trace, _ = tracing.Parse(value) // one that is malformed is as good as none
		case stateHeader:
			state = value
		default:
			if strings.HasPrefix(name, "Nats-") {
				continue // of the server
			}
			if e.Headers == nil {
				e.Headers = make(map[string]string, len(m.Header))
			}
			e.Headers[name] = value
		}
	}
	if e.Trace.ID != [16]byte{} {
		e.Trace.State = state
	}
	if e.Kind == relay.KindReply && e.Headers[errorHeader] != "" {
		e.Kind = relay.KindFailure // of a program without relay
	}
	return e, nil
}

// decodeFields parses the header Relay.
func decodeFields(e *relay.Envelope, s string) error {
	fields := strings.Split(s, " ")
	if len(fields) < 5 || len(fields) > 6 {
		return fmt.Errorf("relay/nats: malformed header %s: %q", relayHeader, s)
	}
	kind, known := kindOf(fields[0])
	var n [3]uint64
	for i, bits := range [...]int{32, 32, 64} {
		var err error
		if n[i], err = strconv.ParseUint(fields[2+i], 10, bits); err != nil {
			known = false
		}
	}
	if !isInbox(e.Subject) && parseCall(e, fields[1]) != nil { // otherwise the subject has it, which the server has checked
		known = false
	}
	if !known || n[2] > maxMicros {
		return fmt.Errorf("relay/nats: malformed header %s: %q", relayHeader, s)
	}
	e.Kind, e.Seq, e.Attempt = kind, uint32(n[0]), uint32(n[1])
	e.Deadline = time.Duration(n[2]) * time.Microsecond
	if len(fields) == 6 {
		e.ReplyTo = fields[5]
	}
	return nil
}

// kindOf returns the kind with a name.
func kindOf(name string) (k relay.Kind, known bool) {
	for k = relay.KindRequest; k <= relay.KindCredit; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// checkSubject returns an error if a subject is not valid. A reply subject has at most four
// parts.
func checkSubject(s string) error {
	if isInbox(s) && strings.Count(s, ".") > 3 {
		return fmt.Errorf("%w: %q", relay.ErrSubject, s)
	}
	return relay.CheckSubject(s)
}

// sendable reports whether NATS carries a header unchanged, and it has no meaning for NATS or
// for this package.
func sendable(name, value string) bool {
	if name == "" || name == relayHeader || name == traceHeader || name == stateHeader || name == statusHeader || strings.HasPrefix(name, "Nats-") {
		return false
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' || name[i] == ':' {
			return false
		}
	}
	return carries(value)
}

// carries reports whether NATS carries the value of a header unchanged.
func carries(value string) bool {
	return strings.TrimSpace(value) == value && !strings.ContainsAny(value, "\r\n")
}

// checkDelay returns an error if the header of a request with a delay is of no use.
func checkDelay(e *relay.Envelope, stored bool) error {
	text := e.Headers[relay.Delay]
	if text == "" {
		return nil
	}
	if delay, err := time.ParseDuration(text); !stored || err != nil || delay < 0 {
		return fmt.Errorf("%w: %q", relay.ErrHeader, relay.Delay)
	}
	return nil
}
