package relay

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
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

	local  bool           // the bus is inside the process
	epoch  time.Time      // when the Caller was made; deadlines count from here
	tracer tracing.Tracer // of NewCaller, for calls with contexts that have none; or nil

	mu        sync.Mutex
	reg       registry                  // guarded by mu, as all below
	deadlines map[*loop.Loop]*deadlines // of the loops that call, and with the key nil of goroutines
	queued    map[*waiter]func()        // calls that wait for space in a queue, and how to end that wait
	draw      *rand.ChaCha8
	closed    bool
	stats     CallerStats
	took      durations // nil until metrics are read

	lastCancel struct{ subject, to string } // of the last message that cancelOf made for all workers
}

// CallerOptions configures a Caller.
type CallerOptions struct {
	// Timeout is the deadline of calls that have none of their own. A call also ends with
	// its context. Zero means 30 seconds. Deadlines are limited to a year.
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
	// request again, and again after each further time. A worker that is frozen or cut off then
	// does not hold up its calls: most buses choose a worker at random for each copy. The first
	// reply counts, and the other workers are cancelled. Set Hedge only for handlers that may
	// run twice for a call, and to more than they usually take. Streams, and requests of subjects
	// that a bus stores, are sent once.
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
	CancelsLost uint64 // the bus did not take the message
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
	c := &Caller{bus: bus, o: o, clock: clockOf(ctx), deadlines: map[*loop.Loop]*deadlines{}, draw: seeded(ctx), tracer: spindle.TracerOf(ctx)}
	c.epoch = c.clock.now()
	_, c.local = bus.(*local)
	c.inbox = "_inbox." + drawName(c.draw)
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

// Stats returns the counts of the caller.
func (c *Caller) Stats() CallerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Waiting = c.reg.n
	return s
}

// leak returns the error of Close for the calls that wait, oldest first.
func leak(calls []string) error {
	text := ""
	for _, call := range calls[:min(len(calls), 10)] {
		text += "\n\t" + call
	}
	return fmt.Errorf("%w: %d of them at Close; end their scopes, or close their streams, first%s", ErrLeak, len(calls), text)
}

// Close ends the Caller. Calls that still wait fail with ErrClosed, their workers are
// notified, and Close fails with an error that wraps ErrLeak and lists them: subject, age, the
// time that remains, and the trace.
func (c *Caller) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	leaked := c.waiters()
	hide(probedCaller(c))
	var cancels []*Envelope
	for i := range c.reg.slots {
		if w := c.reg.slots[i].w; w != nil {
			w.err = callerClosed(w.req.Subject)
			c.conclude(w, canceled)
			cancels = append(cancels, c.cancelOf(w))
			w.wakeIfDue()
		}
	}
	// One that has its reply may still wait for space in the queue of another group.
	var queued []func()
	inOrder := func(a, b *waiter) int { return cmp.Compare(a.req.ID, b.req.ID) }
	for _, w := range slices.SortedFunc(maps.Keys(c.queued), inOrder) {
		queued = append(queued, c.queued[w])
	}
	c.mu.Unlock()
	for _, stop := range queued {
		stop()
	}
	for _, e := range cancels {
		c.sendCancel(e)
	}
	err := c.sub.Close()
	switch {
	case len(leaked) == 0:
		return err
	case err != nil:
		return errors.Join(leak(leaked), err)
	}
	return leak(leaked)
}
