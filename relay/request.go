package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/tracing"
)

// Request is a request that a handler serves.
type Request struct {
	*Envelope
	s     *service
	scope stopper   // the context of its handler
	due   time.Time // on this machine's clock; zero for none

	headers map[string]string // of the reply

	settle func(Outcome) // of the delivery; nil if the bus does not redeliver
	sent   uint32        // items; only the handler
	items  *kept         // that were sent, if they are kept; only the handler
	fence  uint64
	key    callKey // in service.running

	// Guarded by s.mu.
	allowed uint32         // items that the caller accepts in all
	credit  *onloop.Parker // the handler waits for credit
	gone    bool           // the caller has cancelled the call
}

// stopper is the context of a handler, on a goroutine or in a task.
type stopper interface {
	stop() // ends it; from any goroutine
}

// SetHeader sets a header of the reply.
func (r *Request) SetHeader(key, value string) {
	if r.headers == nil {
		r.headers = map[string]string{}
	}
	r.headers[key] = value
}

// Handler serves one request. Its context ends when the caller cancels the call or is gone,
// at the call's deadline, and when the worker is stopped. The result is the reply; an error
// is the caller's *RemoteError. A handler of a stream calls Request.Send for each item, and
// its result is the last item unless it is empty.
type Handler func(ctx context.Context, r *Request) ([]byte, error)

// callKey identifies a call among all callers. With a token it needs no reply subject: on some
// buses that of a request has more parts than that of its cancellation.
type callKey struct {
	replyTo   string // "" if there is a token
	id, token uint64
}

// keyOf returns the key of a request, or of a message about one.
func keyOf(e *Envelope) callKey {
	if e.Token != 0 {
		return callKey{"", e.ID, e.Token}
	}
	return callKey{e.ReplyTo, e.ID, 0}
}

// admit registers a request that is about to start. If the request must not start, admit
// reports false, and what to tell a bus that redelivers.
func (s *service) admit(r *Request) (ok bool, o Outcome) {
	late := false
	if r.due = r.Envelope.due(); r.due.IsZero() && r.Deadline != 0 {
		late = r.Deadline < 0
		r.due = s.clock.now().Add(r.Deadline)
	} // in the process, the caller's cancellation has come if the deadline has passed
	r.allowed = r.Seq
	s.mu.Lock()
	defer s.mu.Unlock()
	call := keyOf(r.Envelope)
	key, twice := call, s.running[call] != nil
	if r.ID == 0 || r.ReplyTo == "" && twice { // not of a Caller: there may be several
		s.unnamed++
		key, twice = callKey{replyTo: " ", id: s.unnamed}, false // no subject is a space
	}
	switch {
	case r.Kind != KindRequest:
		s.stats.Unknown++
	case late:
		s.stats.Expired++
	case s.revoked.take(call) || r.isAbandoned():
		s.stats.Revoked++
	case twice:
		s.stats.Duplicate++
		return false, Outcome{Again: true} // the one that runs may still fail; when it is done, the bus forgets both
	default:
		s.running[key] = r
		r.key = key
		return true, Outcome{}
	}
	return false, Outcome{}
}

// perform calls the handler and answers. It is called between admit and the end of the
// handler's context. It sets o, even if the handler calls runtime.Goexit.
func (s *service) perform(ctx context.Context, r *Request, o *Outcome) {
	measuring, began := probe.Measuring.Load(), time.Time{}
	if measuring {
		began = s.clock.now()
	}
	returned := false
	var body []byte
	var err error
	defer func() {
		if !returned {
			value := recover()
			if value == nil {
				value = "runtime.Goexit"
			}
			err = &handlerPanic{value, debug.Stack()}
		}
		if measuring {
			s.measure(began)
		}
		*o = s.answer(r, body, err)
	}()
	if s.tracer != nil {
		var end func(tracing.End)
		ctx, end = s.tracer.Start(ctx, tracing.Span{Kind: "handler", Subject: s.subject})
		defer func() { end(tracing.End{Err: spanError(err, returned)}) }()
	}
	if key := r.Headers[IdempotencyKey]; key != "" && s.o.Results != nil {
		body, err = s.handleOnce(ctx, r, r.Subject+" "+key)
	} else {
		body, err = s.h(ctx, r)
	}
	returned = true
}

// handlerPanic is the panic of a handler. Its stack goes to the log: the caller gets the value.
type handlerPanic struct {
	value any
	stack []byte
}

func (p *handlerPanic) Error() string { return fmt.Sprint(p.value) }

// errHandlerFailed is the error of a span around a handler that did not return.
var errHandlerFailed = errors.New("relay: the handler panicked or called runtime.Goexit")

func spanError(err error, returned bool) error {
	if !returned {
		return errHandlerFailed
	}
	return err
}

// answer removes the request and sends the reply. If the worker was stopped, or the handler
// failed with ErrRetry, and the bus redelivers, a later attempt will answer. The
// same holds for a request without a caller, if another one with its key runs.
func (s *service) answer(r *Request, body []byte, err error) Outcome {
	_, panicked := err.(*handlerPanic)
	s.mu.Lock()
	delete(s.running, r.key)
	s.stats.Finished++
	if err != nil {
		s.stats.Failed++
		s.lastError = err.Error()
	}
	if panicked {
		s.stats.Panics++
	}
	gone := r.gone
	if gone {
		s.stats.Canceled++
	}
	s.mu.Unlock()
	stopped := !gone && errors.Is(err, context.Canceled)
	twice := err == error(errTwice)
	var o Outcome
	if r.settle != nil && !gone && err != nil {
		if o.Again = stopped || err == errLost || twice && r.ReplyTo == ""; !o.Again && !twice {
			o.Again, o.After = s.retry(r, err)
		}
	}
	retried := o.Again
	if err != nil {
		s.report(r, err, gone || stopped || twice || r.ReplyTo != "" && !retried)
	}
	if retried || gone {
		return o
	}
	if r.ReplyTo == "" {
		return Outcome{Err: err}
	}
	reply := &Envelope{Kind: KindReply, Trace: r.Trace, ID: r.ID, Token: r.Token, Subject: r.ReplyTo, ReplyTo: s.inbox, Seq: r.sent, Attempt: r.Attempt, Headers: r.headers, Body: body}
	if err != nil {
		code, message := codeError, err.Error()
		if coded, ok := err.(*codedError); ok {
			code = coded.code
		}
		switch {
		case panicked:
			code = codePanic
		case twice:
			code, message = codeDuplicate, errTwice.Message
		case errors.Is(err, context.DeadlineExceeded) && r.late():
			code = codeDeadline
		case stopped:
			code, message = codeCanceled, "the worker was stopped"
		}
		reply = NewFailure(r.Envelope, code, message)
	}
	if err := s.bus.TryPublish(reply); err != nil {
		s.unsent(r, reply, err)
	}
	return Outcome{}
}

// retry returns whether a request that has failed is delivered again, and when.
func (s *service) retry(r *Request, err error) (again bool, after time.Duration) {
	if s.o.Retry != nil {
		return s.o.Retry(r, err)
	}
	return errors.Is(err, ErrRetry), 0
}

// late reports whether the call's deadline has passed.
func (r *Request) late() bool { return !r.due.IsZero() && !r.s.clock.now().Before(r.due) }

// unsent answers with the reason why the bus did not take the answer e, if its caller can have that.
func (s *service) unsent(r *Request, e *Envelope, err error) {
	switch {
	case errors.Is(err, ErrHeader):
		err = s.bus.TryPublish(NewFailure(r.Envelope, codeError, err.Error()))
	case err == ErrTooLarge:
		err = s.bus.TryPublish(NewFailure(r.Envelope, codeTooLarge, fmt.Sprintf("the reply has %d bytes", len(e.Body))))
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats.RepliesLost++
	}
}

// report logs a panic of a handler, because its stack stays here, and an error that reaches no
// caller.
func (s *service) report(r *Request, err error, told bool) {
	log := cmp.Or(s.o.ErrorLog, slog.Default())
	if p, ok := err.(*handlerPanic); ok {
		// The stack is part of the message: slog would escape the lines of an attribute.
		log.Error(fmt.Sprintf("relay: handler panicked: %v\n\n%s", p.value, p.stack), traced(r.Trace, "subject", r.Subject)...)
	} else if !told {
		log.Error("relay: handler failed", traced(r.Trace, "subject", r.Subject, "attempt", r.Attempt, "err", err)...)
	}
}
