package relay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/tracing"
)

// Errors of calls. ErrFull is temporary: try again later, or let the client do so.
var (
	ErrClosed      = errors.New("relay: closed")
	ErrLeak        = errors.New("relay: calls wait") // see Caller.Close
	ErrFull        = errors.New("relay: full")
	ErrNoResponder = errors.New("relay: no worker serves the subject")
	ErrDown        = errors.New("relay: the bus is not connected")
	ErrTooLarge    = errors.New("relay: envelope too large")
	ErrSubject     = errors.New("relay: not a subject") // see CheckSubject
	ErrHeader      = errors.New("relay: a header that cannot be sent on this bus")

	// ErrRetry is for handlers: one that fails with an error that wraps ErrRetry gets the
	// request again, or another worker does, if the bus redelivers. The bus limits the
	// attempts; see Request.Attempt. On other buses it is an error like any other.
	ErrRetry = errors.New("relay: try again")

	// ErrLostClaim is for Results: another worker has the key; see Claimer.
	ErrLostClaim = errors.New("relay: another worker has the key")
)

// notSent adds to an error of a bus which request it refused.
func notSent(err error, e *Envelope) error {
	switch err {
	case ErrNoResponder, ErrFull, ErrDown:
		return fmt.Errorf("%w: %s", err, e.Subject)
	case ErrClosed:
		return fmt.Errorf("%w: the bus, for a call of %s", err, e.Subject)
	case ErrTooLarge:
		return fmt.Errorf("%w: %s, a body of %d bytes", err, e.Subject, len(e.Body))
	}
	return err
}

// callerClosed is the error of a call of a Caller that is closed.
func callerClosed(subject string) error {
	return fmt.Errorf("%w: the Caller, for a call of %s", ErrClosed, subject)
}

// timeoutError is the error of a call that had no reply within its deadline.
type timeoutError struct {
	subject string
	after   time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("relay: no reply from %s after %v", e.subject, e.after)
}

func (e *timeoutError) Is(target error) bool {
	return target == spindle.ErrTimeout || target == context.DeadlineExceeded
}

func (e *timeoutError) Timeout() bool { return true }

// Codes of RemoteError, as its documentation lists them.
const (
	codeError       = "error"
	codePanic       = "panic"
	codeNoResponder = "no-responder"
	codeCanceled    = "canceled"
	codeDeadline    = "deadline"
	codeDuplicate   = "duplicate"
	codeFull        = "full"
	codeLostClaim   = "lost-claim"
	codeTooLarge    = "too-large"
)

// RemoteError is an error that came as a reply. Its Code is one of these:
//
//	error         the handler returned an error
//	panic         the handler panicked
//	no-responder  no worker serves the subject any more
//	canceled      the worker was stopped
//	deadline      the call's deadline has passed at the worker first
//	duplicate     another request with the same idempotency key runs
//	full          the queue of the subject is full
//	lost-claim    another worker has the idempotency key; the effect may have happened
//	too-large     the reply is larger than the bus or the Results allow
//	given-up      the bus no longer delivers the request: too many attempts have failed
type RemoteError struct {
	Subject string
	Code    string
	Message string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("relay: %s: %s: %s", e.Subject, e.Code, e.Message)
}

// Is reports whether target is ErrNoResponder, ErrFull or context.DeadlineExceeded, and the
// code says so.
func (e *RemoteError) Is(target error) bool {
	switch e.Code {
	case codeNoResponder:
		return target == ErrNoResponder
	case codeFull:
		return target == ErrFull
	case codeDeadline:
		return target == context.DeadlineExceeded
	}
	return false
}

// NewFailure returns an answer to a request that says what went wrong, with a code of
// RemoteError. It is for buses.
func NewFailure(to *Envelope, code, message string) *Envelope {
	return &Envelope{
		Kind: KindFailure, Trace: to.Trace, ID: to.ID, Token: to.Token, Subject: to.ReplyTo, Attempt: to.Attempt,
		Headers: map[string]string{errorCode: code}, Body: []byte(message),
	}
}

// remoteError returns the error that a failure carries.
func remoteError(subject string, e *Envelope) error {
	return &RemoteError{subject, e.Headers[errorCode], string(e.Body)}
}

// traced adds the ID of a trace to the attributes of a record, if there is one.
func traced(t tracing.Context, attributes ...any) []any {
	if id := traceID(&t); id != "" {
		attributes = append(attributes, "trace", id)
	}
	return attributes
}

// traceID returns the identity of a trace in hexadecimal; "" for none.
func traceID(t *tracing.Context) string {
	if t.ID == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(t.ID[:])
}
