package relay

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/tracing"
)

// Caller sends requests over a Bus and routes the replies to the tasks and goroutines that
// wait for them. Make one with NewCaller, and Close it. Any goroutine may use it.
type Caller struct {
	bus   Bus
	o     CallerOptions
	clock clock
	inbox string // the subject of replies; random, so that no other Caller has it
	sub   io.Closer

	local  bool           // the bus is a Local
	epoch  time.Time      // when the Caller was made; deadlines count from here
	tracer tracing.Tracer // of NewCaller, for calls with contexts that have none; or nil

	recent  atomic.Pointer[home] // of the loop that called last
	outside *home                // of goroutines

	mu     sync.Mutex
	reg    registry             // guarded by mu, as all below
	homes  map[*loop.Loop]*home // of the loops that call
	queued map[*waiter]func()   // calls that wait for space in a queue, and how to end that wait
	draw   *rand.ChaCha8
	closed bool
	stats  CallerStats
	took   durations // nil until metrics are read

	lastCancel struct{ subject, to string } // of the last message that cancelOf made for all workers
}

// CallerOptions configures a Caller.
type CallerOptions struct {
	// Timeout is the deadline of calls that have none of their own. A call also ends with
	// its context. Zero means 30 seconds. A deadline of more than a year is one of a year.
	Timeout time.Duration

	// MaxWaiters is how many calls may wait at a time. Another one fails with ErrFull.
	// Zero means 100,000.
	MaxWaiters int

	// FailWhenFull makes a call fail with ErrFull if the queue of its subject is full.
	// Otherwise it waits for space, within its deadline.
	FailWhenFull bool

	// Intercept, if set, is called around each call: it may change the request, make the call
	// with next, once, several times or not at all, and change the reply. For a stream, next
	// returns when the request is sent, with a nil envelope.
	Intercept func(ctx context.Context, e *Envelope, next func(context.Context, *Envelope) (*Envelope, error)) (*Envelope, error)

	// Window is how many items of a stream may be on their way. Zero means 16.
	Window int

	// Hedge, if it is not zero, is how long a call waits for its reply before it sends the
	// request again, and again after each further time. So a worker that is frozen or cut off
	// does not keep its calls: on most buses each copy goes to a worker by chance. The first
	// reply counts, and the other workers are cancelled. It is for handlers that may run twice for
	// a call, and should be longer than they usually take. Streams, and subjects that a bus
	// stores, are sent once.
	Hedge time.Duration
}

// CallerStats are counts of a Caller since it was made. Each call is in exactly one of
// Waiting, Replied, TimedOut, Canceled and Failed.
type CallerStats struct {
	Calls    uint64 // started
	Waiting  int    // not ended
	Replied  uint64 // ended by a reply, which may be an error
	TimedOut uint64
	Canceled uint64 // by their scope or client
	Failed   uint64 // refused by the bus, or broken
	Refused  uint64 // not started, because there were MaxWaiters

	// Replies that reached no call.
	Late      uint64 // after the end or the deadline of their call
	Duplicate uint64 // after another reply
	Unknown   uint64 // with an ID that was never used

	Hedged uint64 // requests that were sent again; see CallerOptions.Hedge

	CancelsSent uint64
	CancelsLost uint64 // the bus took no more
}

// NewCaller makes a Caller. Each call has a span of the tracer of its context, or of ctx; see
// spindle.WithTracer.
func NewCaller(ctx context.Context, bus Bus, o CallerOptions) (*Caller, error) {
	if ctx == nil {
		panic("relay: NewCaller: nil context")
	}
	if bus == nil {
		panic("relay: NewCaller: nil bus")
	}
	if o.Timeout < 0 || o.MaxWaiters < 0 || o.Window < 0 || o.Hedge < 0 {
		panic("relay: NewCaller with a negative limit")
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	o.Timeout = min(o.Timeout, mostDeadline)
	if o.MaxWaiters == 0 {
		o.MaxWaiters = 100_000
	}
	if o.Window == 0 {
		o.Window = 16
	}
	c := &Caller{bus: bus, o: o, clock: clockOf(ctx), homes: map[*loop.Loop]*home{}, draw: seeded(ctx), tracer: spindle.TracerOf(ctx)}
	c.epoch = c.clock.now()
	_, c.local = bus.(*Local)
	c.inbox, c.outside = "_inbox."+drawName(c.draw), c.newHome(nil)
	sub, err := bus.Listen(ctx, c.inbox, c.deliver)
	if err != nil {
		return nil, fmt.Errorf("relay: NewCaller: %w", err)
	}
	c.sub = sub
	c.visible()
	return c, nil
}

// mostDeadline keeps a deadline far from overflow.
const mostDeadline = 365 * 24 * time.Hour

// drawName draws a part of a subject that no other Caller or worker has.
func drawName(r *rand.ChaCha8) string {
	var id [12]byte
	r.Read(id[:]) // does not fail
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// Call sends a request and waits for the reply. It fails with a *RemoteError if the worker
// failed, with spindle.ErrTimeout at the deadline, with ErrFull, ErrNoResponder or ErrDown if
// the request could not be sent, and with the error of ctx if that ends first. If the
// deadline passes at the worker before it does here, because the worker's clock is faster, the
// error is a *RemoteError with CodeDeadline. For errors.Is, it equals context.DeadlineExceeded
// as spindle.ErrTimeout does.
func (c *Caller) Call(ctx context.Context, subject string, body []byte) ([]byte, error) {
	if c.o.Intercept != nil {
		reply, err := c.Do(ctx, Envelope{Subject: subject, Body: body})
		if err != nil {
			return nil, err
		}
		return reply.Body, nil
	}
	w, err := c.do(ctx, &Envelope{Subject: subject, Body: body})
	if err != nil {
		return nil, err
	}
	reply := w.reply.Body
	w.release()
	return reply, nil
}

// Do is Call with all fields of an envelope. It uses the Subject, Body, Headers and Deadline
// of e, and Trace if it is set. If the Deadline is negative, the call fails with a
// spindle.ErrTimeout, and nothing is sent.
func (c *Caller) Do(ctx context.Context, e Envelope) (*Envelope, error) {
	if c.o.Intercept == nil {
		return c.whole(ctx, e)
	}
	reply, err := c.o.Intercept(ctx, &e, func(ctx context.Context, e *Envelope) (*Envelope, error) { return c.whole(ctx, *e) })
	if reply == nil && err == nil {
		err = fmt.Errorf("relay: CallerOptions.Intercept has returned no reply of %s", e.Subject)
	}
	return reply, err
}

// whole makes a call, and returns its reply as an envelope.
func (c *Caller) whole(ctx context.Context, e Envelope) (*Envelope, error) {
	w, err := c.do(ctx, &e)
	if err != nil {
		return nil, err
	}
	reply := w.reply
	w.release()
	return reply, nil
}

// do makes a call. Unless it fails, it returns the waiter, with the reply.
func (c *Caller) do(ctx context.Context, e *Envelope) (w *waiter, err error) {
	if ctx == nil {
		panic("relay: a call with a nil context")
	}
	ctx, end := c.startSpan(ctx, e)
	defer func() { end(err) }()
	if w, err = c.begin(ctx, e, false); err != nil {
		return nil, err
	}
	if err := c.await(ctx, w); err != nil && c.end(w, canceled) {
		w.release()
		return nil, err
	} // otherwise a reply came together with the cancellation, and counts
	err = w.err
	if w.ended == expired {
		err = &timeoutError{w.req.Subject, w.req.Deadline}
	}
	if err != nil {
		w.release()
		return nil, err
	}
	return w, nil
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
	req := c.newRequest(now, limit)
	req.Trace, req.Subject, req.Headers, req.Body = e.Trace, e.Subject, e.Headers, e.Body
	req.ReplyTo, req.Attempt = c.inbox, 1
	if stream {
		req.Seq = uint32(c.o.Window)
	}
	w, err := c.register(ctx, req)
	if err != nil {
		return nil, err
	}
	w.limited = limit == c.o.Timeout && !scoped
	how := failed
	err = c.bus.TryPublish(&req.Envelope)
	if err == ErrMustWait || err == ErrFull && !c.o.FailWhenFull {
		how, err = c.publishWithin(ctx, w, limit)
		now = c.clock.now()
	}
	if err != nil && c.end(w, how) {
		w.release()
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
	} // otherwise park does
	return w, nil
}

// register makes a waiter for a request.
func (c *Caller) register(ctx context.Context, req *outgoing) (w *waiter, err error) {
	p := c.outside
	if spindle.Current(ctx) != nil {
		p = c.homeOf(spindle.LoopOf(ctx))
		w = p.newWaiter()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, callerClosed(req.Subject)
	case c.reg.n >= c.o.MaxWaiters:
		c.stats.Refused++
		return nil, fmt.Errorf("%w: %d calls wait", ErrFull, c.o.MaxWaiters)
	case w == nil:
		w = p.newWaiter()
	}
	w.req, w.stream = req, req.Seq > 0
	req.ID, req.Token = c.reg.add(w), max(c.draw.Uint64(), 1)
	c.stats.Calls++
	return w, nil
}

// limit ends a stream at its deadline, whether it is read or not.
func (c *Caller) limit(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended == waiting {
		w.home.limit(w)
	}
}

// conclude ends a call that waits. The caller holds c.mu.
func (c *Caller) conclude(w *waiter, how ending) {
	w.ended = how
	if how != replied {
		w.req.origin.abandoned.Store(true)
	}
	if w.listed {
		w.home.unlimit(w)
	}
	c.reg.remove(w.req.ID, how)
	switch how {
	case replied:
		c.stats.Replied++
		if probe.Measuring.Load() {
			c.measure(w)
		}
	case expired:
		c.stats.TimedOut++
	case canceled:
		c.stats.Canceled++
	case failed:
		c.stats.Failed++
	}
}

// end ends a call if it waits, and reports whether it did. For all endings but a reply and
// a failure to send, the worker is notified.
func (c *Caller) end(w *waiter, how ending) bool {
	c.mu.Lock()
	if w.ended != waiting {
		c.mu.Unlock()
		return false
	}
	c.conclude(w, how)
	var e *Envelope
	if how == expired || how == canceled {
		e = c.cancelOf(w)
	}
	c.mu.Unlock()
	c.sendCancel(e)
	return true
}

// cancelOf returns the message that the call has ended: for the worker that has sent items,
// or for all workers of the subject, because any of them may have the request, or several if
// it was redelivered. The caller holds c.mu.
func (c *Caller) cancelOf(w *waiter) *Envelope {
	to := ""
	if w.in != nil && w.in.attempt <= 1 {
		to = w.in.worker
	}
	if to == "" {
		last := &c.lastCancel
		if last.subject != w.req.Subject { // often the calls of a scope end together
			last.subject, last.to = w.req.Subject, cancelSubject(w.req.Subject)
		}
		to = last.to
	}
	e := &Envelope{Kind: KindCancel, Trace: w.req.Trace, ID: w.req.ID, Token: w.req.Token, Subject: to, ReplyTo: c.inbox, Deadline: w.req.Deadline}
	if c.local {
		e.from = w.req.from
	}
	return e
}

// sendCancel sends a message of cancelOf; nil is none.
func (c *Caller) sendCancel(e *Envelope) {
	if e == nil {
		return
	}
	err := c.bus.TryPublish(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stats.CancelsLost++
	} else {
		c.stats.CancelsSent++
	}
}

// Stats returns the counts of the caller.
func (c *Caller) Stats() CallerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Waiting = c.reg.n
	return s
}
