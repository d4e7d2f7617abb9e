package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spindleloop/spindle"
)

// Errors of calls. ErrFull is temporary: try again later, or let the client do so.
var (
	ErrClosed      = errors.New("relay: closed")
	ErrFull        = errors.New("relay: full")
	ErrNoResponder = errors.New("relay: no worker serves the subject")
	ErrDown        = errors.New("relay: the bus is not connected")
	ErrBroken      = errors.New("relay: items of the stream were lost")
	ErrTooLarge    = errors.New("relay: envelope too large")

	// ErrMustWait is the error of Bus.TryPublish for an envelope that Publish takes, but
	// never without waiting. Calls then use Publish.
	ErrMustWait = errors.New("relay: the bus has to wait for this envelope")

	// ErrRetry is for handlers: one that fails with an error that wraps ErrRetry gets the
	// request again, or another worker does, if the bus redelivers. The bus limits the
	// attempts; see Request.Attempt. On other buses it is an error as any other.
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

// Codes of RemoteError.
const (
	CodeError       = "error"        // the handler returned an error
	CodePanic       = "panic"        // the handler panicked
	CodeNoResponder = "no-responder" // no worker serves the subject any more
	CodeCanceled    = "canceled"     // the worker was stopped
	CodeDeadline    = "deadline"     // the call's deadline has passed at the worker first
	CodeDuplicate   = "duplicate"    // another request with the same idempotency key runs
	CodeFull        = "full"         // the queue of the subject is full
	CodeLostClaim   = "lost-claim"   // another worker has the idempotency key; the effect may have happened
	CodeTooLarge    = "too-large"    // the reply is larger than the bus or the Results allow
	CodeGivenUp     = "given-up"     // the bus delivers the request no more: it was tried too often
)

// RemoteError is an error that came as a reply.
type RemoteError struct {
	Subject string
	Code    string // CodeError and so on
	Message string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("relay: %s: %s: %s", e.Subject, e.Code, e.Message)
}

// Is reports whether target is ErrNoResponder, ErrFull or context.DeadlineExceeded, and the
// code says so.
func (e *RemoteError) Is(target error) bool {
	switch e.Code {
	case CodeNoResponder:
		return target == ErrNoResponder
	case CodeFull:
		return target == ErrFull
	case CodeDeadline:
		return target == context.DeadlineExceeded
	}
	return false
}

// NewFailure returns an answer to a request that says what went wrong. It is for buses.
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

// HeaderError is the error for a header that a bus cannot carry.
type HeaderError struct{ Name string }

func (e *HeaderError) Error() string {
	return "relay: header " + strconv.Quote(e.Name) + " cannot be sent on this bus"
}

// SubjectError is the error for a subject that is not valid; see CheckSubject.
type SubjectError struct{ Subject string }

func (e *SubjectError) Error() string {
	return "relay: not a subject: " + strconv.Quote(e.Subject)
}
