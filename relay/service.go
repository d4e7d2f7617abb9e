package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/tracing"
)

// service is one Serve: pullers take requests from the subscription and call the handler.
// There is one idle puller more than needed, up to the limit.
type service struct {
	bus     Bus
	subject string
	inbox   string // for cancellations and credits of calls that have been answered
	h       Handler
	o       ServeOptions
	clock   clock
	values  context.Context // of Serve
	tracer  tracing.Tracer  // or nil

	sub               Subscription
	control, canceler io.Closer
	ended             *cosync.Inbox[struct{}] // has a value when the last puller has ended
	spawn             func()                  // starts a puller

	returned bool // Serve has returned; guarded by the mutex of the Worker

	idle atomic.Int32 // pullers that wait for a request

	mu      sync.Mutex
	running map[callKey]running // guarded by mu, as all below
	unnamed uint64              // requests without a call, so far
	keys    map[string]bool     // idempotency keys of requests that run
	revoked revocations
	pullers int
	failure error // why pullers ended
	stats   WorkerStats
	spent   probe.Durations // by handlers, since metrics are read

	lastError string
}

func newService(ctx context.Context, bus Bus, subject string, h Handler, o ServeOptions) *service {
	return &service{
		bus: bus, subject: subject, inbox: workerPrefix + drawName(seeded(ctx)) + "." + subject, h: h, o: o, clock: clockOf(ctx), values: ctx, tracer: spindle.TracerOf(ctx),
		ended: cosync.NewInbox[struct{}](1), running: map[callKey]running{}, keys: map[string]bool{},
	}
}

// open subscribes. Cancellations come first, so that none is missed.
func (s *service) open(ctx context.Context) (err error) {
	if err := CheckSubject(s.subject); err != nil {
		return err
	}
	if s.control, err = s.bus.Listen(ctx, s.inbox, s.receive); err != nil {
		return err
	}
	if s.canceler, err = s.bus.Listen(ctx, cancelSubject(s.subject), s.receive); err != nil {
		return err
	}
	s.sub, err = s.bus.Subscribe(ctx, s.subject, s.o.Group)
	return err
}

func (s *service) close() {
	for _, l := range []io.Closer{s.control, s.canceler} {
		if l != nil {
			l.Close()
		}
	}
	if s.sub != nil {
		s.sub.Close()
	}
}

// run starts the first puller, waits until ctx ends, and drains.
func (s *service) run(ctx context.Context) error {
	s.pullers = 1
	s.spawn()
	_, cause := s.ended.Get(ctx)
	if cause == nil {
		return s.failure
	}
	if err := s.sub.Close(); err != nil {
		cause = errors.Join(cause, err)
	}
	for range 2 {
		late := within(ctx, s.o.Drain, func(ctx context.Context) error {
			_, err := s.ended.Get(ctx)
			return err
		})
		if !late {
			return cause
		}
		s.stopAll()
	}
	return errors.Join(cause, &StragglerError{s.subject, s.counts().Running})
}

// admit registers a request that is about to start. If the request must not start, admit
// reports false, and what to tell a bus that redelivers.
func (s *service) admit(v running) (ok bool, o Outcome) {
	r := v.request()
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
		return false, Retry // the one that runs may still fail; when it is done, the bus forgets both
	default:
		s.running[key] = v
		r.key = key
		return true, Done
	}
	return false, Done
}

// perform calls the handler and answers. It is called between admit and the end of the
// handler's context.
func (s *service) perform(ctx context.Context, v running) (o Outcome) {
	r := v.request()
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
		o = s.answer(r, body, err)
	}()
	if s.tracer != nil {
		var end func(tracing.End)
		ctx, end = s.tracer.Start(ctx, tracing.Span{Kind: "handler", Subject: s.subject})
		defer func() { end(tracing.End{Err: spanError(err, returned)}) }()
	}
	body, err = s.handle(ctx, v)
	returned = true
	return Done
}

// errHandlerFailed is the error of a span around a handler that did not return.
var errHandlerFailed = errors.New("relay: the handler panicked or called runtime.Goexit")

func spanError(err error, returned bool) error {
	if !returned {
		return errHandlerFailed
	}
	return err
}

// handlerPanic is the panic of a handler. Its stack goes to the log: the caller gets the value.
type handlerPanic struct {
	value any
	stack []byte
}

func (p *handlerPanic) Error() string { return fmt.Sprint(p.value) }

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
	o := Done
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
		code, message := CodeError, err.Error()
		if coded, ok := err.(*codedError); ok {
			code = coded.code
		}
		switch {
		case panicked:
			code = CodePanic
		case twice:
			code, message = CodeDuplicate, errTwice.Message
		case errors.Is(err, context.DeadlineExceeded) && r.late():
			code = CodeDeadline
		case stopped:
			code, message = CodeCanceled, "the worker was stopped"
		}
		reply = NewFailure(r.Envelope, code, message)
	}
	s.send(r, reply)
	return Done
}

// retry returns whether a request that has failed is delivered again, and when.
func (s *service) retry(r *Request, err error) (again bool, after time.Duration) {
	if s.o.Retry != nil {
		return s.o.Retry(r, err)
	}
	return errors.Is(err, ErrRetry), 0
}

// settled tells a bus that redelivers what became of a request.
func (r *Request) settled(o Outcome) {
	if r.settle != nil {
		r.settle(o)
	}
}

// late reports whether the call's deadline has passed.
func (r *Request) late() bool { return !r.due.IsZero() && !r.s.clock.now().Before(r.due) }

// send publishes an answer.
func (s *service) send(r *Request, e *Envelope) {
	err := s.bus.TryPublish(e)
	switch {
	case err == nil:
		return
	case errors.As(err, new(*HeaderError)):
		err = s.bus.TryPublish(NewFailure(r.Envelope, CodeError, err.Error()))
	case err == ErrTooLarge:
		err = s.bus.TryPublish(NewFailure(r.Envelope, CodeTooLarge, fmt.Sprintf("the reply has %d bytes", len(e.Body))))
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats.RepliesLost++
	}
}

// receive handles cancellations and credits, from any goroutine.
func (s *service) receive(e *Envelope) {
	key := keyOf(e)
	s.mu.Lock()
	v := s.running[key]
	var wake *onloop.Parker
	switch e.Kind {
	case KindCancel:
		if v == nil {
			if e.isLocal(s.bus) {
				break // admit looks at the request itself
			}
			if s.revoked.add(key, s.clock.now(), e.Deadline) {
				s.stats.Forgotten++
			}
			break
		}
		r := v.request()
		r.gone = true
		wake, r.credit = r.credit, nil
	case KindCredit:
		if v == nil || e.Seq <= v.request().allowed {
			break
		}
		r := v.request()
		r.allowed = e.Seq
		wake, r.credit = r.credit, nil
	}
	s.mu.Unlock()
	if v != nil && e.Kind == KindCancel {
		v.stop() // first, so that Send returns the error of its context, if that is the handler's
	}
	if wake != nil {
		wake.Wake()
	}
}

// stopAll ends the contexts of all handlers.
func (s *service) stopAll() {
	s.mu.Lock()
	all := slices.SortedFunc(maps.Values(s.running), func(a, b running) int { // a simulated run is the same each time
		return cmp.Or(cmp.Compare(a.request().ID, b.request().ID), cmp.Compare(a.request().Token, b.request().Token))
	})
	s.mu.Unlock()
	for _, v := range all {
		v.stop()
	}
}

// hasEnded reports whether all pullers have ended, with their handlers.
func (s *service) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pullers == 0
}

func (s *service) counts() WorkerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Running = len(s.running)
	return st
}

// within calls fn shielded from the end of ctx, for at most d. It reports whether d ended fn.
func within(ctx context.Context, d time.Duration, fn func(context.Context) error) (late bool) {
	if spindle.Current(ctx) != nil {
		return errors.Is(spindle.Grace(ctx, d, fn), spindle.ErrTimeout)
	}
	late, _ = moveOnAfter(context.WithoutCancel(ctx), d, fn)
	return late
}
