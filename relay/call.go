package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/tracing"
)

// Call sends a request and waits for the reply. It fails with a *RemoteError if the worker
// failed, with spindle.ErrTimeout at the deadline, with ErrFull, ErrNoResponder or ErrDown if
// the request could not be sent, and with the error of ctx if that ends first. If the
// deadline passes at the worker before it does here, because the worker's clock is faster, the
// error is a *RemoteError with the code "deadline". By errors.Is it is context.DeadlineExceeded,
// as spindle.ErrTimeout is.
func (c *Caller) Call(ctx context.Context, subject string, body []byte) ([]byte, error) {
	reply, err := c.Do(ctx, Envelope{Subject: subject, Body: body})
	if err != nil {
		return nil, err
	}
	return reply.Body, nil
}

// Do is Call with all fields of an envelope. It uses the Subject, Body, Headers and Deadline
// of e, and Trace if it is set. If the Deadline is negative, the call fails with a
// spindle.ErrTimeout, and nothing is sent.
func (c *Caller) Do(ctx context.Context, e Envelope) (*Envelope, error) {
	if c.o.Intercept == nil {
		return c.do(ctx, &e)
	}
	return c.intercepted(ctx, e)
}

// intercepted makes a call through CallerOptions.Intercept.
func (c *Caller) intercepted(ctx context.Context, e Envelope) (*Envelope, error) {
	reply, err := c.o.Intercept(ctx, &e, func(ctx context.Context, e *Envelope) (*Envelope, error) {
		copied := *e // the trace of a call is not that of the next one
		return c.do(ctx, &copied)
	})
	if reply == nil && err == nil {
		err = fmt.Errorf("relay: CallerOptions.Intercept has returned no reply of %s", e.Subject)
	}
	return reply, err
}

// do makes a call.
func (c *Caller) do(ctx context.Context, e *Envelope) (reply *Envelope, err error) {
	ctx, end := c.startSpan(ctx, e)
	if end != nil {
		defer func() { end(err) }()
	}
	w, err := c.begin(ctx, e, false)
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // the task was made to exit, or panics
			c.end(w, canceled)
		}
	}()
	if c.o.Hedge == 0 {
		err = w.wait(ctx)
	} else {
		err = c.waitHedged(ctx, w)
	}
	returned = true
	if err != nil && c.end(w, canceled) {
		w.stopAlarm()
		return nil, err
	} // otherwise a reply came together with the cancellation, and counts
	reply, err = w.reply, w.err
	if w.ended == expired {
		err = &timeoutError{w.req.Subject, w.req.Deadline}
	}
	w.release()
	return reply, err
}

// startSpan starts the span of a call, and sets the trace of its request. It returns a context
// with the span, and the function that ends the span. Without a tracer that is nil, and the trace
// goes on as it is: an ID of a span that is never exported would break it.
func (c *Caller) startSpan(ctx context.Context, e *Envelope) (context.Context, func(error)) {
	if ctx == nil {
		panic("relay: a call with a nil context")
	}
	tracer := spindle.TracerOf(ctx)
	if tracer == nil {
		tracer = c.tracer
	}
	if tracer == nil {
		if e.Trace == (tracing.Context{}) {
			e.Trace = tracing.Of(ctx)
		}
		return ctx, nil
	}
	if e.Trace != (tracing.Context{}) {
		ctx = tracing.With(ctx, e.Trace)
	}
	ctx, end := tracer.Start(ctx, tracing.Span{Kind: "call", Subject: e.Subject})
	e.Trace = tracing.Of(ctx)
	return ctx, func(err error) { end(tracing.End{Err: err}) }
}

// begin registers a waiter and publishes the request.
func (c *Caller) begin(ctx context.Context, e *Envelope, stream bool) (*waiter, error) {
	now := c.clock.now()
	limit := e.Deadline
	switch {
	case limit < 0:
		return nil, &timeoutError{e.Subject, 0}
	case limit == 0:
		limit = c.o.Timeout
	}
	limit = min(limit, mostDeadline)
	scoped := false // the deadline is that of ctx, which ends a call with an error of its own
	if at, ok := ctx.Deadline(); ok && at.Sub(now) <= limit {
		limit, scoped = max(at.Sub(now), 1), true
	}
	req := &outgoing{origin: origin{c: c, deadline: now.Sub(c.epoch) + limit}}
	req.Envelope = Envelope{
		Trace: e.Trace, Attempt: 1, Subject: e.Subject, ReplyTo: c.inbox, Deadline: limit,
		Headers: e.Headers, Body: e.Body, from: &req.origin,
	}
	if stream {
		req.Seq = uint32(c.o.Window)
	}
	w := spareWaiters.Get().(*waiter)
	w.c, w.req, w.stream, w.limited = c, req, stream, limit == c.o.Timeout && !scoped
	err := c.register(ctx, w)
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // the task was made to exit, or the bus panics
			c.end(w, canceled)
		}
	}()
	how := failed
	err = c.bus.TryPublish(&req.Envelope)
	if err == cosync.ErrWouldBlock || err == ErrFull && !c.o.FailWhenFull {
		how, err = c.publishWithin(ctx, w, limit)
		now = c.clock.now()
	}
	returned = true
	if err != nil && c.end(w, how) {
		return nil, notSent(err, e)
	} // a reply may come while the request waits for another group
	switch {
	case !w.limited && stream:
		// The end of ctx should be noticed first, if it has the deadline.
		w.setAlarm(req.due().Sub(now) + time.Millisecond)
	case !w.limited && !scoped:
		w.setAlarm(req.due().Sub(now))
	case stream:
		c.limit(w)
	} // otherwise wait does
	return w, nil
}

// register gives a call its ID and its token.
func (c *Caller) register(ctx context.Context, w *waiter) error {
	var l *loop.Loop // nil for a goroutine
	if spindle.Current(ctx) != nil {
		l = spindle.LoopOf(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return callerClosed(w.req.Subject)
	case c.reg.n >= c.o.MaxWaiters:
		c.stats.Refused++
		return fmt.Errorf("%w: %d calls wait", ErrFull, c.o.MaxWaiters)
	}
	w.among = c.deadlinesOf(l)
	w.req.ID, w.req.Token = c.reg.add(w), max(c.draw.Uint64(), 1)
	c.stats.Calls++
	return nil
}

// publishWithin waits for space in the queue, at most for the time of the call. If it fails, it
// returns how the call ends: some workers may have the request, and must be notified.
func (c *Caller) publishWithin(ctx context.Context, w *waiter, limit time.Duration) (how ending, err error) {
	var late bool
	subject := w.req.Subject // when Close stops the wait, w may be that of another call
	if spindle.Current(ctx) != nil {
		late, err = spindle.MoveOnAfter(ctx, limit, func(ctx context.Context) error {
			l, scope := spindle.LoopOf(ctx).Internal(), spindle.ScopeOf(ctx)
			return c.publish(ctx, w, func() {
				_ = l.Post(atclose.Run, func() { scope.Cancel(callerClosed(subject)) }) // a closed loop has no tasks
			})
		})
	} else {
		late, err = moveOnAfter(ctx, limit, func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			return c.publish(ctx, w, func() { cancel(callerClosed(subject)) })
		})
	}
	switch {
	case late:
		return expired, &timeoutError{subject, limit}
	case err != nil && ctx.Err() != nil:
		return canceled, err
	}
	return failed, err
}

// publish publishes the request of w. Close calls stop, which must end the wait.
func (c *Caller) publish(ctx context.Context, w *waiter, stop func()) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return callerClosed(w.req.Subject)
	}
	if c.queued == nil {
		c.queued = map[*waiter]func(){}
	}
	c.queued[w] = stop
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.queued, w)
	}()
	return c.bus.Publish(ctx, &w.req.Envelope)
}
