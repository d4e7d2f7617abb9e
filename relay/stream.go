package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/onloop"
)

// Stream is a call with a stream of replies. Its methods are for one task or goroutine at a
// time. Close it.
type Stream struct {
	w       *waiter
	endSpan func(error) // ends the span; nil without one, and when it has ended
}

// Stream sends a request to a handler that answers with any number of items. It uses the same
// fields of e as Do. The deadline is that of the whole stream: then it ends, whether it is read
// or not. Items that came before can still be read.
//
// If the bus redelivers the request, the stream goes on with the later attempt, whichever
// worker has it. Its first items, up to the last one that came before, are dropped. So a
// handler must send the same items in each attempt.
func (c *Caller) Stream(ctx context.Context, e Envelope) (s *Stream, err error) {
	if c.o.Intercept == nil {
		return c.open(ctx, e)
	}
	_, err = c.o.Intercept(ctx, &e, func(ctx context.Context, e *Envelope) (*Envelope, error) {
		if s != nil {
			s.Close() // of an attempt before
		}
		s, err = c.open(ctx, *e)
		return nil, err
	})
	switch {
	case err != nil && s != nil:
		s.Close()
		return nil, err
	case err == nil && s == nil:
		return nil, fmt.Errorf("relay: CallerOptions.Intercept has not opened the stream of %s", e.Subject)
	}
	return s, err
}

func (c *Caller) open(ctx context.Context, e Envelope) (*Stream, error) {
	ctx, end := c.startSpan(ctx, &e)
	s := &Stream{endSpan: end}
	var err error
	if s.w, err = c.begin(ctx, &e, true); err != nil {
		s.finish(err)
		return nil, err
	}
	return s, nil
}

// incoming is what has come of a stream. Guarded by the Caller's mutex.
//
// A bus that redelivers may give the request to another worker, which sends all items again.
// The latest attempt that has sent an item is the one that counts: its items up to got are
// duplicates, and those after got are new. What earlier attempts still send is dropped.
type incoming struct {
	items   []*Envelope // not yet read
	worker  string      // the subject of the worker that has sent items
	attempt uint32      // of that worker
	got     uint32      // items received
	read    uint32      // items that Next has returned
	paid    uint32      // items that the caller allows
	granted uint32      // items that the worker has been allowed to send in this attempt
}

// creditDue returns the message that allows the worker to send as many items as the caller
// allows, or nil if the worker has that credit. The caller holds c.mu.
func (w *waiter) creditDue() *Envelope {
	in := w.in
	if in == nil || w.ended != waiting || in.granted >= in.paid || in.worker == "" {
		return nil
	}
	in.granted = in.paid
	return &Envelope{Kind: KindCredit, Trace: w.req.Trace, ID: w.req.ID, Token: w.req.Token, Subject: in.worker, ReplyTo: w.c.inbox, Seq: in.paid}
}

// sendCredit sends a message of creditDue. If the bus does not take it, the next
// item tries again; if it is lost, a later one or the deadline ends the wait of the worker.
func (c *Caller) sendCredit(w *waiter, e *Envelope) {
	if c.bus.TryPublish(e) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reg.find(e.ID, e.Token) == w { // otherwise the stream has ended
		w.in.granted = w.req.Seq
	}
}

// hasItems reports whether there is an item to read. The caller holds c.mu.
func (w *waiter) hasItems() bool { return w.in != nil && len(w.in.items) > 0 }

// isStale reports whether an answer is of another attempt than the latest.
func (in *incoming) isStale(e *Envelope) bool {
	if e.Attempt != 0 && e.Attempt != in.attempt {
		return e.Attempt < in.attempt
	}
	return in.worker != "" && e.ReplyTo != "" && e.ReplyTo != in.worker
}

// workerOf returns the subject of the worker that has sent an answer. A worker cannot make the
// caller publish to other subjects.
func workerOf(e *Envelope) string {
	if strings.HasPrefix(e.ReplyTo, workerPrefix) {
		return e.ReplyTo
	}
	return ""
}

// receive takes an answer of a stream. It reports false if the answer is a duplicate. The
// caller holds c.mu.
func (w *waiter) receive(e *Envelope) bool {
	if w.in == nil {
		w.in = &incoming{paid: w.req.Seq, granted: w.req.Seq}
	}
	in := w.in
	switch {
	case in.isStale(e):
		return false
	case e.Kind == KindItem && e.Attempt > in.attempt:
		in.worker, in.attempt, in.granted = workerOf(e), e.Attempt, w.req.Seq
	}
	switch {
	case e.Kind == KindFailure:
		w.err = remoteError(w.req.Subject, e)
		w.c.conclude(w, replied)
	case e.Kind == KindItem && e.Seq <= in.got:
		return false
	case e.Kind == KindItem && e.Seq == in.got+1 && len(in.items) < int(w.req.Seq):
		in.got++
		in.worker = workerOf(e)
		in.items = append(in.items, e)
	case e.Kind == KindReply && e.Seq == in.got:
		if len(e.Body) > 0 { // most buses do not tell nil from empty
			in.items = append(in.items, e)
		}
		w.c.conclude(w, replied)
	default: // a gap, or more than allowed
		w.err = fmt.Errorf("relay: items of the stream were lost: %w", io.ErrUnexpectedEOF)
		w.c.conclude(w, failed)
	}
	return true
}

// Next waits for the next item. After the last one it returns io.EOF, and io.ErrUnexpectedEOF if the bus has lost
// some. If ctx ends first, no item is lost, and Next may be called again.
func (s *Stream) Next(ctx context.Context) ([]byte, error) {
	w := s.w
	if err := w.wait(ctx); err != nil {
		return nil, err
	}
	c := w.c
	c.mu.Lock()
	if !w.hasItems() {
		err := w.streamEnd()
		c.mu.Unlock()
		if err == io.EOF {
			s.finish(nil)
		} else {
			s.finish(err)
		}
		return nil, err
	}
	in := w.in
	e := in.items[0]
	in.items[0] = nil
	in.items = in.items[1:]
	in.read++
	if in.paid-in.read <= w.req.Seq/2 {
		in.paid = in.read + min(w.req.Seq, mostItems-in.read)
	}
	credit := w.creditDue()
	c.mu.Unlock()
	if credit != nil {
		c.sendCredit(w, credit)
	}
	return e.Body, nil
}

// streamEnd returns the error of Next after the last item. The caller holds c.mu.
func (w *waiter) streamEnd() error {
	switch {
	case w.err != nil:
		return w.err
	case w.ended == expired:
		return &timeoutError{w.req.Subject, w.req.Deadline}
	case w.ended == replied:
		return io.EOF
	}
	return fmt.Errorf("%w: the stream of %s", ErrClosed, w.req.Subject)
}

// finish ends the span.
func (s *Stream) finish(err error) {
	if s.endSpan != nil {
		s.endSpan(err)
		s.endSpan = nil
	}
}

// Deadline returns when the stream ends at the latest.
func (s *Stream) Deadline() time.Time { return s.w.req.due() }

// Close ends the stream. If the worker has not finished, its handler is cancelled. Items
// that Next has not returned are dropped.
func (s *Stream) Close() error {
	s.w.c.end(s.w, canceled)
	s.w.stopAlarm()
	s.finish(nil)
	return nil
}

// Send sends an item of a stream. It waits while the caller has not read enough of those
// before. It fails if ctx ends, with ErrClosed if the caller has left, if the caller waits
// for a single reply, and after 4,294,967,295 items, which is the most that a stream can have.
func (r *Request) Send(ctx context.Context, body []byte) error {
	if r.Seq == 0 {
		return errNotStream
	}
	s := r.s
	for {
		p := &onloop.Parker{}
		if err := p.Prepare(ctx, "relay: Send"+wouldBlock); err != nil {
			return err
		}
		s.mu.Lock()
		if r.gone {
			s.mu.Unlock()
			p.Pass()
			return fmt.Errorf("%w: the caller of %s has left: %w", ErrClosed, r.Subject, context.Canceled)
		}
		if r.sent == mostItems {
			s.mu.Unlock()
			p.Pass()
			return errTooManyItems
		}
		if r.sent < r.allowed {
			s.mu.Unlock()
			p.Pass()
			break
		}
		r.credit = p
		s.mu.Unlock()
		if err := p.Park(ctx, "relay: Send, the caller does not read", (*creditWait)(r)); err != nil {
			return err
		}
	}
	e := &Envelope{Kind: KindItem, Trace: r.Trace, ID: r.ID, Token: r.Token, Subject: r.ReplyTo, ReplyTo: s.inbox, Seq: r.sent + 1, Attempt: r.Attempt, Body: body}
	if err := s.bus.TryPublish(e); err != nil {
		return notSent(err, &Envelope{Subject: r.Subject, Body: body})
	}
	r.sent++
	if r.items != nil {
		r.items.add(body)
	}
	return nil
}

// creditWait ends the wait of Send.
type creditWait Request

// Abort reports false if credit has come.
func (a *creditWait) Abort() bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	was := a.credit != nil
	a.credit = nil
	return was
}

// mostItems is how many items a stream can have: Envelope.Seq counts them.
const mostItems = math.MaxUint32

// errTooManyItems is the error of Send after mostItems.
var errTooManyItems = fmt.Errorf("relay: Send: a stream has at most %d items", uint32(mostItems))

// errNotStream is the error of Send when the caller waits for one reply.
var errNotStream = errors.New("relay: Send: the caller waits for a single reply")
