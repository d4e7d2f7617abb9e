package nats

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
)

// Names of headers.
const (
	relayHeader = "Relay"
	traceHeader = "traceparent"

	// Of the server's answer to a request that no subscription takes.
	statusHeader = "Status"
	noResponders = "503"
)

// inboxPrefix begins the reply subjects of Callers. On the wire they end with the ID of the
// call, so that an answer without a header of ours, or the server's own, finds its call.
const inboxPrefix = "_inbox."

// HeaderError is the error for a header that NATS cannot carry, or that has a meaning for
// NATS or for this package.
type HeaderError struct{ Name string }

func (e *HeaderError) Error() string {
	return "relay/nats: header " + strconv.Quote(e.Name) + " cannot be sent"
}

// encode returns an envelope as a message. The reply subject of one that is stored is in
// the header, because JetStream uses that of the message.
func encode(e *relay.Envelope, stored bool) (*nats.Msg, error) {
	if err := checkSubject(e.Subject); err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: wireSubject(e.Subject, e.ID), Data: e.Body, Header: make(nats.Header, 2+len(e.Headers))}
	replyTo := e.ReplyTo
	if e.Kind == relay.KindRequest && replyTo != "" && !stored {
		if err := checkSubject(replyTo); err != nil {
			return nil, err
		}
		m.Reply, replyTo = wireSubject(replyTo, e.ID), "" // the server answers there if there is no worker
	}
	fields := make([]byte, 0, 64+len(replyTo))
	fields = append(fields, e.Kind.String()...)
	for _, n := range [...]uint64{e.ID, uint64(e.Seq), uint64(e.Attempt), uint64(max(0, e.Deadline.Microseconds()))} {
		fields = strconv.AppendUint(append(fields, ' '), n, 10)
	}
	if replyTo != "" {
		fields = append(append(fields, ' '), replyTo...)
	}
	m.Header[relayHeader] = []string{string(fields)}
	if e.Trace != (relay.Trace{}) {
		m.Header[traceHeader] = []string{e.Trace.String()}
	}
	for name, value := range e.Headers {
		if !sendable(name, value) {
			return nil, &HeaderError{name}
		}
		m.Header[name] = []string{value}
	}
	return m, nil
}

// decode returns a message as an envelope.
func decode(m *nats.Msg) (*relay.Envelope, error) {
	e := &relay.Envelope{Kind: relay.KindRequest, Attempt: 1, Subject: m.Subject, ReplyTo: m.Reply, Body: m.Data}
	if strings.HasPrefix(m.Subject, inboxPrefix) { // also of programs that know nothing of relay
		i := strings.LastIndexByte(m.Subject, '.')
		id, err := strconv.ParseUint(m.Subject[i+1:], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("relay/nats: subject %q has no ID", m.Subject)
		}
		e.Kind, e.ID, e.Subject, e.ReplyTo, e.Attempt = relay.KindReply, id, m.Subject[:i], "", 0
		if m.Header.Get(statusHeader) == noResponders && len(m.Data) == 0 {
			return relay.NewFailure(&relay.Envelope{ReplyTo: e.Subject, ID: id}, relay.CodeNoResponder, "no worker serves the subject"), nil
		}
	}
	for name, values := range m.Header {
		switch value := values[0]; name {
		case relayHeader:
			if err := decodeFields(e, value); err != nil {
				return nil, err
			}
		case traceHeader:
			e.Trace, _ = relay.ParseTrace(value) // one that is malformed is as good as none
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
	return e, nil
}

// decodeFields parses the header Relay.
func decodeFields(e *relay.Envelope, s string) error {
	fields := strings.Split(s, " ")
	if len(fields) < 5 || len(fields) > 6 {
		return fmt.Errorf("relay/nats: malformed header %s: %q", relayHeader, s)
	}
	kind, known := kindOf(fields[0])
	var n [4]uint64
	for i, bits := range [...]int{64, 32, 32, 54} { // microseconds that fit into a Duration
		var err error
		if n[i], err = strconv.ParseUint(fields[1+i], 10, bits); err != nil {
			known = false
		}
	}
	if !known {
		return fmt.Errorf("relay/nats: malformed header %s: %q", relayHeader, s)
	}
	e.Kind, e.ID, e.Seq, e.Attempt = kind, n[0], uint32(n[1]), uint32(n[2])
	e.Deadline = time.Duration(n[3]) * time.Microsecond
	if len(fields) == 6 {
		e.ReplyTo = fields[5]
	} else if id := "." + fields[1]; strings.HasPrefix(e.ReplyTo, inboxPrefix) {
		e.ReplyTo = strings.TrimSuffix(e.ReplyTo, id)
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

// wireSubject returns a subject as NATS sees it.
func wireSubject(subject string, id uint64) string {
	if !strings.HasPrefix(subject, inboxPrefix) {
		return subject
	}
	return subject + "." + strconv.FormatUint(id, 10)
}

// checkSubject returns an error if NATS cannot publish to a subject: it must be printable
// ASCII in parts that are separated by dots, none of them empty or a wildcard.
func checkSubject(s string) error {
	if s == "" || len(s) > 255 {
		return &relay.SubjectError{Subject: s}
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || part == "*" || part == ">" {
			return &relay.SubjectError{Subject: s}
		}
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return &relay.SubjectError{Subject: s}
		}
	}
	return nil
}

// sendable reports whether NATS carries a header unchanged.
func sendable(name, value string) bool {
	if name == "" || name == relayHeader || name == traceHeader || name == statusHeader || strings.HasPrefix(name, "Nats-") {
		return false
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' || name[i] == ':' {
			return false
		}
	}
	return strings.TrimSpace(value) == value && !strings.ContainsAny(value, "\r\n")
}
