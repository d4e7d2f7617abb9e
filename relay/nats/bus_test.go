package nats_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

func isNoResponder(err error) bool { return errors.Is(err, relay.ErrNoResponder) }

func echo(_ context.Context, r *relay.Request) ([]byte, error) { return r.Body, nil }

func TestCall(t *testing.T) {
	b := start(t, broker.Options{})
	bus := connect(t, b, nats.Options{})
	serve(t, bus, "echo", echo, relay.ServeOptions{})
	c := caller(t, connect(t, b, nats.Options{}))
	got, err := c.Call(t.Context(), "echo", []byte("hello"))
	if err != nil || string(got) != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
	err = spindle.Run(t.Context(), func(ctx context.Context) error {
		for i := range 100 {
			got, err := c.Call(ctx, "echo", fmt.Append(nil, i))
			if err != nil || string(got) != fmt.Sprint(i) {
				t.Errorf("in a task: %q, %v", got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCallWithoutWorkerFailsAtOnce(t *testing.T) {
	c := caller(t, connect(t, start(t, broker.Options{}), nats.Options{}))
	if _, err := c.Call(t.Context(), "nothing", nil); !isNoResponder(err) {
		t.Fatalf("got %v", err)
	}
	if s := c.Stats(); s.Waiting != 0 || s.Replied != 1 {
		t.Errorf("%+v", s)
	}
}

func TestCancelReachesTheWorker(t *testing.T) {
	b := start(t, broker.Options{})
	begun, ended := make(chan bool), make(chan error, 1)
	serve(t, connect(t, b, nats.Options{}), "slow", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		begun <- true
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}, relay.ServeOptions{})
	c := caller(t, connect(t, b, nats.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, "slow", nil)
		result <- err
	}()
	<-begun
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler: %v", err)
	}
}

// TestCloseSendsTheOverflow: a cancellation that is added while Close empties the outbox is sent.
// One that comes later is refused, so that the caller counts it as lost.
func TestCloseSendsTheOverflow(t *testing.T) {
	server := start(t, broker.Options{})
	bus, other := connect(t, server, nats.Options{}), connect(t, server, nats.Options{})
	arrived := make(chan uint64, 2)
	if _, err := other.Listen(t.Context(), "_cancel.work", func(e *relay.Envelope) { arrived <- e.ID }); err != nil {
		t.Fatal(err)
	}
	cancellation := func(id uint64) *relay.Envelope {
		return &relay.Envelope{Kind: relay.KindCancel, ID: id, Subject: "_cancel.work", ReplyTo: "_inbox.x"}
	}
	if err := nats.Overflow(bus, cancellation(1)); err != nil {
		t.Error(err)
	}
	if err := bus.Close(); err != nil {
		t.Error(err)
	}
	if err := nats.Overflow(bus, cancellation(2)); !errors.Is(err, cosync.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := other.Publish(t.Context(), cancellation(3)); err != nil {
		t.Error(err)
	}
	if id := <-arrived; id != 1 {
		t.Errorf("cancellation %d has arrived first", id)
	}
}

// TestManyCallsCanceledInTheQueue: no handler runs for them.
func TestManyCallsCanceledInTheQueue(t *testing.T) {
	const calls = 10_000
	server := start(t, broker.Options{})
	entered := make(chan bool, calls)
	w, _ := serve(t, connect(t, server, nats.Options{Queue: calls}), "work", func(ctx context.Context, _ *relay.Request) ([]byte, error) {
		entered <- true
		<-ctx.Done()
		return nil, ctx.Err()
	}, relay.ServeOptions{Concurrency: 1})
	c, err := relay.NewCaller(t.Context(), connect(t, server, nats.Options{}), relay.CallerOptions{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var streams []*relay.Stream
	for len(streams) < calls {
		s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"})
		if err != nil {
			t.Fatal(err)
		}
		if streams = append(streams, s); len(streams) == 1 {
			<-entered
		}
	}
	for _, s := range slices.Backward(streams) { // the worker is busy until it has all cancellations
		s.Close()
	}
	until.Holds(t, func() bool { return w.Stats().Revoked+w.Stats().Finished == calls })
	if s := w.Stats(); s.Revoked != calls-1 || s.Canceled != 1 || s.Forgotten != 0 {
		t.Errorf("%+v", s)
	}
}

// TestManyCallsOfTasksAreCanceled at once: all cancellations reach the worker, although there are
// more than the outbox holds.
func TestManyCallsOfTasksAreCanceled(t *testing.T) {
	const calls = 3000
	server := start(t, broker.Options{})
	w, _ := serve(t, connect(t, server, nats.Options{Queue: calls}), "work", func(ctx context.Context, _ *relay.Request) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, relay.ServeOptions{Concurrency: 1})
	bus := connect(t, server, nats.Options{Outbox: 16})
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Hour})
		if err != nil {
			return err
		}
		streams := make([]*relay.Stream, calls)
		for i := range streams {
			if streams[i], err = c.Stream(ctx, relay.Envelope{Subject: "work"}); err != nil {
				return err
			}
		}
		for _, s := range streams {
			s.Close()
		}
		if s := c.Stats(); s.CancelsSent != calls || s.CancelsLost != 0 {
			t.Errorf("%+v", s)
		}
		return c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	until.Holds(t, func() bool { return w.Stats().Revoked+w.Stats().Finished == calls })
	if s := w.Stats(); s.Finished != s.Canceled {
		t.Errorf("%+v", s)
	}
	until.Holds(t, func() bool { return bus.Stats().Outbox == 0 })
	if s := bus.Stats(); s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

func TestFullQueueIsAnswered(t *testing.T) {
	b := start(t, broker.Options{})
	begun, release := make(chan bool, 3), make(chan bool)
	serve(t, connect(t, b, nats.Options{Queue: 2}), "busy", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		begun <- true
		<-release
		return nil, nil
	}, relay.ServeOptions{Concurrency: 1})
	c := caller(t, connect(t, b, nats.Options{}))
	results := make(chan error)
	call := func() {
		_, err := c.Call(t.Context(), "busy", nil)
		results <- err
	}
	go call()
	<-begun
	for range 19 {
		go call()
	}
	for range 19 - 2 { // two wait in the queue
		if err := <-results; !errors.Is(err, relay.ErrFull) {
			t.Fatalf("got %v", err)
		}
	}
	close(release)
	for range 3 {
		if err := <-results; err != nil {
			t.Errorf("got %v", err)
		}
	}
}

// TestRequestsOfAWorkerThatLeaves checks that what waits in the queue of a worker goes to
// the others when it is stopped.
func TestRequestsOfAWorkerThatLeaves(t *testing.T) {
	b := start(t, broker.Options{})
	release, begun := make(chan bool), make(chan bool, 100)
	_, stop := serve(t, connect(t, b, nats.Options{}), "job", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		begun <- true
		<-release
		return []byte("first"), nil
	}, relay.ServeOptions{Concurrency: 1})
	bus := connect(t, b, nats.Options{})
	c := caller(t, bus)
	calls := make([]*relay.Stream, 10)
	for i := range calls {
		var err error
		if calls[i], err = c.Stream(t.Context(), relay.Envelope{Subject: "job"}); err != nil {
			t.Fatal(err)
		}
	}
	// Listen returns when the server has sent all of them to the worker. One that the server is about to
	// send when the worker leaves fails: the server has chosen among the members of before.
	if _, err := bus.Listen(t.Context(), "unused", func(*relay.Envelope) {}); err != nil {
		t.Fatal(err)
	}
	<-begun
	other := connect(t, b, nats.Options{})
	member, err := other.Subscribe(t.Context(), "job", "workers")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for d, err := member.Next(t.Context()); err == nil; d, err = member.Next(t.Context()) {
			other.TryPublish(&relay.Envelope{Kind: relay.KindReply, Subject: d.ReplyTo, ID: d.ID, Token: d.Token, Body: []byte("second")})
		}
	}()
	results := make(chan string)
	for _, call := range calls {
		go func() {
			got, err := call.Next(t.Context())
			results <- fmt.Sprintf("%s %v", got, err)
		}()
	}
	go stop()
	counts := map[string]int{}
	for range 9 {
		counts[<-results]++
	}
	close(release)
	counts[<-results]++
	if counts["first <nil>"] != 1 || counts["second <nil>"] != 9 {
		t.Errorf("got %v", counts)
	}
}

// TestProgramsWithoutRelay covers peers that use NATS alone.
func TestProgramsWithoutRelay(t *testing.T) {
	b := start(t, broker.Options{})
	nc := plainClient(t, b)
	bus := connect(t, b, nats.Options{})
	serve(t, bus, "ours", func(_ context.Context, r *relay.Request) ([]byte, error) {
		return append([]byte("ours: "), r.Body...), nil
	}, relay.ServeOptions{})
	m, err := nc.Request("ours", []byte("hi"), time.Minute)
	if err != nil || string(m.Data) != "ours: hi" {
		t.Errorf("a plain request: %v, %v", m, err)
	}
	if _, err := nc.Subscribe("theirs", func(m *client.Msg) { m.Respond(append([]byte("theirs: "), m.Data...)) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	got, err := caller(t, bus).Call(t.Context(), "theirs", []byte("hi"))
	if err != nil || string(got) != "theirs: hi" {
		t.Errorf("a plain reply: %q, %v", got, err)
	}
}

func TestLargeAndMalformedEnvelopes(t *testing.T) {
	b := start(t, broker.Options{})
	bus := connect(t, b, nats.Options{})
	for name, tt := range map[string]struct {
		e    relay.Envelope
		want error
	}{
		"too large":           {relay.Envelope{Subject: "a", Body: make([]byte, 2<<20)}, relay.ErrTooLarge},
		"an empty subject":    {relay.Envelope{}, relay.ErrSubject},
		"a wildcard":          {relay.Envelope{Subject: "a.*"}, relay.ErrSubject},
		"an empty part":       {relay.Envelope{Subject: "a..b"}, relay.ErrSubject},
		"a line break":        {relay.Envelope{Subject: "a", Headers: map[string]string{"X": "a\r\nb"}}, relay.ErrHeader},
		"a reserved header":   {relay.Envelope{Subject: "a", Headers: map[string]string{"Relay": "x"}}, relay.ErrHeader},
		"a header of NATS":    {relay.Envelope{Subject: "a", Headers: map[string]string{"Nats-Msg-Id": "x"}}, relay.ErrHeader},
		"no header name":      {relay.Envelope{Subject: "a", Headers: map[string]string{"": "x"}}, relay.ErrHeader},
		"a wildcard as reply": {relay.Envelope{Subject: "a", ReplyTo: ">"}, relay.ErrSubject},
	} {
		err := bus.TryPublish(&tt.e)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	nc := plainClient(t, b)
	serve(t, bus, "echo", echo, relay.ServeOptions{})
	before := bus.Stats().Dropped
	for _, header := range []string{"", "request", "request 1 2 3 4 5 6", "nothing 1 1 1 1", "request -1 0 0 0", "request 1 0 0 99999999999999999999"} {
		m := &client.Msg{Subject: "echo", Header: client.Header{"Relay": []string{header}}}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	until.Holds(t, func() bool { return bus.Stats().Dropped == before+6 })
}

// TestHTTPWithAHeaderThatNATSCannotCarry: headers of NATS have no line breaks, so the request is
// at fault, and not a worker.
func TestHTTPWithAHeaderThatNATSCannotCarry(t *testing.T) {
	bus := connect(t, start(t, broker.Options{}), nats.Options{})
	serve(t, bus, "echo", echo, relay.ServeOptions{})
	h := gateway.New(caller(t, bus), gateway.Route{Subject: "echo"})
	for kind, want := range map[string]int{"text/plain": http.StatusOK, "text/\nplain": http.StatusBadRequest} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Content-Type", kind)
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d", kind, w.Code)
		}
	}
	if s := h.Stats(); s.Refused != 1 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestReplyWithAHeaderThatNATSCannotCarry: the caller gets a failure, and does not wait until
// its deadline.
func TestReplyWithAHeaderThatNATSCannotCarry(t *testing.T) {
	bus := connect(t, start(t, broker.Options{}), nats.Options{})
	w, _ := serve(t, bus, "work", func(_ context.Context, r *relay.Request) ([]byte, error) {
		r.SetHeader("X", "a\nb")
		return nil, nil
	}, relay.ServeOptions{})
	_, err := caller(t, bus).Call(t.Context(), "work", nil)
	var remote *relay.RemoteError
	if !errors.As(err, &remote) || remote.Code != "error" || w.Stats().RepliesLost != 0 {
		t.Errorf("%v, %+v", err, w.Stats())
	}
}

// TestDropsAreCounted: a subscription that is not read is full at last, and the rest is dropped.
func TestDropsAreCounted(t *testing.T) {
	const fit, extra = 10, 100
	b := start(t, broker.Options{})
	bus, publisher := connect(t, b, nats.Options{Queue: fit}), connect(t, b, nats.Options{})
	s, err := bus.Subscribe(t.Context(), "unread", "workers")
	if err != nil {
		t.Fatal(err)
	}
	for range fit + extra {
		if err := publisher.Publish(t.Context(), &relay.Envelope{Subject: "unread"}); err != nil {
			t.Fatal(err)
		}
	}
	until.Holds(t, func() bool { return bus.Stats().Dropped == extra })
	s.Close()
	if n := bus.Stats().Dropped; n < extra {
		t.Errorf("after Close %d are counted", n)
	}
}

// outer is a bus that embeds one, with a method of its own.
type outer struct {
	*nats.Bus
	replies atomic.Int64
}

func (b *outer) TryPublish(e *relay.Envelope) error {
	if e.Kind == relay.KindReply {
		b.replies.Add(1)
	}
	return b.Bus.TryPublish(e)
}

// TestBusThatEmbedsOne is used by its own methods.
func TestBusThatEmbedsOne(t *testing.T) {
	b := start(t, broker.Options{})
	bus := &outer{Bus: connect(t, b, nats.Options{})}
	serve(t, bus, "echo", echo, relay.ServeOptions{})
	if _, err := caller(t, bus).Call(t.Context(), "echo", nil); err != nil {
		t.Fatal(err)
	}
	if n := bus.replies.Load(); n != 1 {
		t.Errorf("%d replies passed its TryPublish", n)
	}
}
