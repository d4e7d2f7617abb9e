package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/either"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
	"github.com/spindleloop/spindle/ws"
)

// callsProtocol is the subprotocol for many calls on one WebSocket.
const callsProtocol = "relay.calls.v1"

// offersCalls reports whether the client of a WebSocket offers callsProtocol.
func offersCalls(r *http.Request) bool {
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		names := strings.Split(line, ",")
		if slices.ContainsFunc(names, func(name string) bool { return strings.TrimSpace(name) == callsProtocol }) {
			return true
		}
	}
	return false
}

// callSocket is a WebSocket with callsProtocol. A task or goroutine reads frames, each call has one,
// and one waits for the end of the server.
type callSocket struct {
	h *Handler
	c *ws.Conn
	r *http.Request // the handshake

	last uint64 // the largest ID so far; of the reader

	mu         sync.Mutex // never held across a wait; guards the next three
	running    map[uint64]*socketCall
	unfinished int // running calls, and those with an end that is not written yet
	draining   bool

	changed *cosync.Inbox[struct{}] // has a value if the drain may have come further
	settled *cosync.Inbox[struct{}] // has a value if unfinished is smaller than it was
}

// socketCall is a call of a callSocket.
type socketCall struct {
	id     uint64
	cancel context.CancelFunc
	credit uint32                  // guarded by the socket's mu
	paid   *cosync.Inbox[struct{}] // has a value if there is more credit
}

// signal lets a Get of a return. A value that is there already does as well.
func signal(a *cosync.Inbox[struct{}]) { _ = a.TryPut(struct{}{}) }

// serveCalls serves a WebSocket with callsProtocol.
func (h *Handler) serveCalls(w http.ResponseWriter, r *http.Request) {
	c, err := ws.Accept(w, r, ws.Options{
		Subprotocols: []string{callsProtocol},
		CheckOrigin:  h.r.CheckOrigin,
		MessageLimit: int(2*min(h.r.MaxBody, math.MaxInt/4) + 4096), // base64 and escapes take more than the body
		PingInterval: pingInterval,
	})
	if err != nil {
		h.refused.Add(1) // Accept has answered
		return
	}
	defer c.CloseNow()
	s := &callSocket{h: h, c: c, r: r, running: map[uint64]*socketCall{},
		changed: cosync.NewInbox[struct{}](1), settled: cosync.NewInbox[struct{}](1)}
	if server, ok := c.NetConn().(interface{ OnShutdown(func()) }); ok {
		server.OnShutdown(s.drain) // in place of Accept's, which does not wait for calls
	}
	// All of them have accounted for their errors.
	_ = either.WithNursery(r.Context(), func(ctx context.Context, n *either.Nursery) error {
		if err := s.write(ctx, helloFrame{"hello", h.r.MaxCalls, h.r.MaxBody}); err != nil {
			return err
		}
		n.Go(s.awaitDrain)
		defer c.CloseNow()    // ends writes
		return s.read(ctx, n) // fails in the end, which cancels the calls
	})
}

// read reads frames until the connection ends.
func (s *callSocket) read(ctx context.Context, n *either.Nursery) error {
	reading := ctx
	if spindle.Current(ctx) != nil {
		reading = context.WithoutCancel(ctx) // as in writeMessage; the task's end ends it
	}
	for {
		kind, message, err := s.c.Read(reading)
		if errors.As(err, new(*ws.ProtocolError)) { // such as a message that is too large
			s.h.refused.Add(1)
		}
		if err != nil {
			return err
		}
		if kind == ws.Binary {
			return s.violation(ws.UnsupportedData, "frames are text")
		}
		f, err := parseCallFrame(message)
		if err != nil {
			return s.violation(ws.InvalidData, err.Error())
		}
		switch f.Type {
		case "call":
			err = s.start(ctx, n, &f)
		default:
			err = s.control(&f)
		}
		if err != nil {
			return err
		}
	}
}

// violation closes the connection because the client does not obey the protocol.
func (s *callSocket) violation(code ws.Code, reason string) error {
	s.h.refused.Add(1)
	_ = s.c.Close(code, reason) // it ends either way
	return errors.New("relay/gateway: " + reason)
}

// control does what a credit or cancel frame says. One for a call that has ended may have crossed
// its end.
func (s *callSocket) control(f *callFrame) error {
	s.mu.Lock()
	k := s.running[f.ID]
	if k != nil && f.Type == "credit" {
		k.credit += min(f.N, math.MaxUint32-k.credit)
	}
	s.mu.Unlock()
	switch {
	case f.ID > s.last:
		return s.violation(ws.PolicyViolation, fmt.Sprintf("%s: no call had the id %d", f.Type, f.ID))
	case k == nil:
	case f.Type == "credit":
		signal(k.paid)
	default:
		k.cancel()
	}
	return nil
}

// start starts a call, or refuses it.
func (s *callSocket) start(ctx context.Context, n *either.Nursery, f *callFrame) error {
	body, err := f.body()
	if err != nil {
		return s.violation(ws.InvalidData, err.Error())
	}
	k := &socketCall{id: f.ID, credit: f.credit(), paid: cosync.NewInbox[struct{}](1)}
	callCtx, cancel := context.WithCancel(ctx)
	k.cancel = cancel
	refusal, err := s.admit(ctx, k, len(body))
	if refusal != nil {
		s.h.refused.Add(1)
		err = s.write(ctx, refusal)
	}
	if refusal != nil || err != nil {
		cancel()
		return err
	}
	e := s.h.envelope(s.r, body)
	delete(e.Headers, relay.IdempotencyKey) // of the handshake, not of this call
	if t, err := tracing.Parse(f.Traceparent); err == nil {
		if isTracestate(f.Tracestate) {
			t.State = f.Tracestate
		}
		e.Trace = t
	}
	n.Go(func(ctx context.Context) error {
		defer cancel()
		s.call(ctx, callCtx, k, e)
		return nil // a failed call ends nothing but itself
	})
	return nil
}

// admit makes k a running call, or returns the frame that refuses it. If the client does not take the
// ends of calls, admit waits, so that they cannot be without number.
func (s *callSocket) admit(ctx context.Context, k *socketCall, size int) (refusal *answerFrame, err error) {
	if k.id <= s.last {
		return nil, s.violation(ws.PolicyViolation, fmt.Sprintf("call: the id %d is not larger than %d", k.id, s.last))
	}
	s.last = k.id
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.unfinished >= 2*s.h.r.MaxCalls {
		s.mu.Unlock()
		_, err := s.settled.Get(ctx)
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	switch {
	case s.draining:
		return &answerFrame{Type: "error", ID: k.id, Status: http.StatusServiceUnavailable, Reason: "draining"}, nil
	case int64(size) > s.h.r.MaxBody:
		return &answerFrame{Type: "error", ID: k.id, Status: http.StatusRequestEntityTooLarge, Reason: "too large"}, nil
	case len(s.running) >= s.h.r.MaxCalls:
		return &answerFrame{Type: "error", ID: k.id, Status: http.StatusTooManyRequests, Reason: "too many calls"}, nil
	}
	s.running[k.id] = k
	s.unfinished++
	return nil, nil
}

// call makes a call, and sends its items and its end. The client may cancel callCtx, but a frame
// that is half written ends the connection, so frames are written with ctx.
func (s *callSocket) call(ctx, callCtx context.Context, k *socketCall, e relay.Envelope) {
	err := s.answer(ctx, callCtx, k, e)
	s.mu.Lock()
	delete(s.running, k.id) // before the client knows, so that it may make another call then
	s.mu.Unlock()
	frame := answerFrame{Type: "end", ID: k.id}
	switch {
	case err == errNotWritten || ctx.Err() != nil:
		s.h.clientGone.Add(1)
		frame = answerFrame{}
	case err == nil:
		s.h.succeed()
	default:
		frame = s.failure(callCtx, k.id, err)
	}
	if frame.Type != "" {
		_ = s.write(ctx, frame) // if it fails, the connection has ended
	}
	s.mu.Lock()
	s.unfinished--
	s.mu.Unlock()
	signal(s.settled)
	signal(s.changed)
}

// answer makes a call, and sends its items.
func (s *callSocket) answer(ctx, callCtx context.Context, k *socketCall, e relay.Envelope) error {
	items, err := s.h.c.Stream(callCtx, e)
	if err != nil {
		return err
	}
	defer items.Close()
	for {
		item, err := items.Next(callCtx)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.awaitCredit(callCtx, k, items)
		}
		if err != nil {
			return err
		}
		if s.write(ctx, itemFrame(k.id, item)) != nil {
			return errNotWritten
		}
	}
}

// awaitCredit waits until the client allows another item, at most until the deadline of the call.
func (s *callSocket) awaitCredit(ctx context.Context, k *socketCall, items *relay.Stream) error {
	if s.spend(k) {
		return nil
	}
	return either.FailAfter(ctx, items.Deadline().Sub(now(ctx)), func(ctx context.Context) error {
		for !s.spend(k) {
			if _, err := k.paid.Get(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// spend takes one credit, and reports whether there was one.
func (s *callSocket) spend(k *socketCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.credit == 0 {
		return false
	}
	k.credit--
	return true
}

// isTracestate reports whether s can be the value of a header, as it is on its way to other
// services. JSON can hold any text.
func isTracestate(s string) bool {
	return len(s) <= 512 && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// failure counts a call that has failed, logs what clients do not see, and returns its frame.
func (s *callSocket) failure(callCtx context.Context, id uint64, err error) answerFrame {
	frame := answerFrame{Type: "error", ID: id, Status: s.h.count(callCtx, err)}
	s.h.report(callCtx, frame.Status, err, "status", frame.Status, "id", id)
	switch frame.Status {
	case 0:
		frame.Status, frame.Reason = 499, "canceled"
	case http.StatusBadRequest:
		frame.Reason = "bad header"
	case http.StatusRequestEntityTooLarge:
		frame.Reason = "too large"
	case http.StatusServiceUnavailable:
		frame.RetryAfter = retrySeconds(s.h.r.RetryAfter)
		frame.Reason = "unavailable"
	default:
		frame.Reason = reason(err)
	}
	return frame
}

// write writes a frame. If it fails, the connection has ended.
func (s *callSocket) write(ctx context.Context, frame any) error {
	return writeMessage(ctx, s.c, ws.Text, encodeFrame(frame))
}

// drain is called when the server shuts down.
func (s *callSocket) drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	signal(s.changed)
}

// awaitDrain closes the connection when the server shuts down and no call runs.
func (s *callSocket) awaitDrain(ctx context.Context) error {
	for announced := false; ; {
		if _, err := s.changed.Get(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		draining, unfinished := s.draining, s.unfinished
		s.mu.Unlock()
		if draining && !announced {
			if err := s.write(ctx, answerFrame{Type: "drain"}); err != nil {
				return err
			}
			announced = true
		}
		if draining && unfinished == 0 {
			return s.c.Close(ws.GoingAway, "") // ends the read, when the client has answered
		}
	}
}
