package relay

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/tracing"
)

// Envelope is a message on a Bus. Callers and workers fill in most of it; a program that
// uses Caller.Do sets Subject, Body, and optionally Deadline and Headers.
//
// Once published, an envelope and its body belong to the receivers: the sender must not
// change them, and receivers must not either, because the in-process bus copies nothing.
type Envelope struct {
	// Trace is the W3C trace context of the sender.
	Trace tracing.Context

	// Kind says what the envelope is for.
	Kind Kind

	// Seq numbers the items of a stream from 1. In a credit it is the number of items that
	// the caller allows in all.
	Seq uint32

	// Attempt counts the deliveries of a request: 1 for the first. Answers of a worker have
	// that of their request, so that the caller of a stream knows which is the latest.
	Attempt uint32

	// ID identifies a call among the calls of one Caller. Replies, cancellations and
	// credits carry the ID of their call. An ID is never used again by the same Caller.
	ID uint64

	// Token belongs to ID. The Caller draws it at random and accepts only answers that have
	// it, so only a program that has seen the request can answer it. It is never 0 in a
	// request of a Caller.
	Token uint64

	// Subject is the address. ReplyTo is the subject for answers, "" for none. Workers
	// publish answers to the ReplyTo of their request, with its ID and Token.
	Subject, ReplyTo string

	// Deadline is the time that remains when the envelope is sent, or 0 for no limit. It
	// is a duration because the clocks of two machines differ. A bus that stores an
	// envelope subtracts the time that it has kept it.
	Deadline time.Duration

	// Headers are for applications. Nil is empty.
	Headers map[string]string

	// Body is the content.
	Body []byte

	from *origin // of a request in the process of its Caller, and of its cancellation; otherwise nil
}

// Kind is the role of an envelope.
type Kind uint8

// The kinds of envelopes. From callers to workers go requests, cancellations and credits. From
// workers to callers go items, replies and failures; the last two end the call.
const (
	KindRequest Kind = iota // starts a call
	KindReply               // ends a call with a result, or a stream without one
	KindItem                // one result of a stream
	KindFailure             // ends a call with an error; see RemoteError
	KindCancel              // ends the context of the worker's handler
	KindCredit              // allows the worker to send more items of a stream
)

var kindNames = [...]string{"request", "reply", "item", "failure", "cancel", "credit"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Header names with a meaning for this package.
const (
	// IdempotencyKey is the header that identifies a request across retries; see
	// ServeOptions.Results.
	IdempotencyKey = "Idempotency-Key"

	// Delay is the header with the time for which a bus keeps a request before it delivers the
	// request, in the syntax of time.ParseDuration. Buses that do not store requests refuse it
	// with ErrHeader.
	Delay = "Relay-Delay"

	// errorCode is the header of a Failure with its code.
	errorCode = "Relay-Error"
)

// clone returns a copy, with the same headers and body.
func clone(e *Envelope) *Envelope {
	c := *e
	return &c
}

// remaining returns the time that remains at now. It reports false if there is no limit.
func (e *Envelope) remaining(now time.Time) (time.Duration, bool) {
	if due := e.due(); !due.IsZero() {
		return due.Sub(now), true
	}
	return e.Deadline, e.Deadline != 0
}

// maxSubject is the length of the longest subject. Callers and workers prefix it for
// cancellations, and with the prefix it is as long as maxControl at most.
const (
	maxSubject = maxControl - len(workerPrefix) - 16 - 1 // see drawName
	maxControl = 255
)

// CheckSubject fails with an error that wraps ErrSubject if a subject is not valid. A subject is up to 230 bytes
// of printable ASCII without spaces, in parts that are separated by dots. No part is empty, or
// "*" or ">", which are wildcards of brokers, and the first one does not begin with "$": such
// subjects are the interface of a broker. Subjects that begin with "_" are for callers and
// workers, and may have 255 bytes. CheckSubject is for buses.
func CheckSubject(s string) error {
	if s == "" || s[0] == '$' || len(s) > maxControl || len(s) > maxSubject && s[0] != '_' {
		return notSubject(s)
	}
	begin := 0 // of the part
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c > '~':
			return notSubject(s)
		case c == '.':
			if !isPart(s[begin:i]) {
				return notSubject(s)
			}
			begin = i + 1
		}
	}
	if !isPart(s[begin:]) {
		return notSubject(s)
	}
	return nil
}

func notSubject(s string) error { return fmt.Errorf("%w: %q; see relay.CheckSubject", ErrSubject, s) }

// isPart reports whether s is a part of a subject, and not a wildcard.
func isPart(s string) bool { return s != "" && s != "*" && s != ">" }

// cancelSubject returns the subject on which workers of a subject receive cancellations of
// calls that no worker has answered yet.
func cancelSubject(subject string) string { return "_cancel." + subject }

// workerPrefix begins the subjects on which one worker receives cancellations and credits of
// calls that it has answered.
const workerPrefix = "_worker."

// origin is what a request has in the process of its Caller only. It is not a part of the
// envelope, because programs may copy an envelope at any time; copies share their origin.
type origin struct {
	c         *Caller
	deadline  time.Duration // since c.epoch
	abandoned atomic.Bool   // the call has ended without a reply; set under c.mu
}

// outgoing is a request with its origin.
type outgoing struct {
	Envelope
	origin origin
}

// due returns the deadline on the clock of this machine. It is zero if only Deadline counts.
func (e *Envelope) due() time.Time {
	if e.from == nil {
		return time.Time{}
	}
	return e.from.c.epoch.Add(e.from.deadline)
}

// isAbandoned reports whether the call of a request has ended without a reply. The result is
// false if that cannot be known here. A copy with another address for replies is not of the call.
func (e *Envelope) isAbandoned() bool {
	return e.from != nil && e.from.abandoned.Load() && e.ReplyTo == e.from.c.inbox
}

// isLocal reports whether the sender and a receiver use the same bus inside the process, where requests
// keep their origin.
func (e *Envelope) isLocal(bus Bus) bool {
	return e.from != nil && e.from.c.local && bus == e.from.c.bus
}
