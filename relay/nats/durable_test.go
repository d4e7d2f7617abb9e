package nats_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// durable returns options with durable subjects below jobs.
func durable(d nats.Durable) nats.Options {
	d.Subjects = []string{"jobs.>"}
	return nats.Options{Durable: []nats.Durable{d}}
}

func publish(t testing.TB, bus relay.Bus, key string) {
	t.Helper()
	e := &relay.Envelope{Subject: "jobs.a", Body: []byte(key), Headers: map[string]string{relay.IdempotencyKey: key}}
	if err := bus.Publish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

func subscribe(t testing.TB, bus relay.Bus) relay.Subscription {
	t.Helper()
	s, err := bus.Subscribe(t.Context(), "jobs.a", "workers")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t testing.TB, s relay.Subscription, want string, attempt uint32) relay.Delivery {
	t.Helper()
	d, err := s.Next(t.Context())
	if err != nil || string(d.Body) != want || d.Attempt != attempt || d.Settle == nil {
		t.Fatalf("got %+v, %v", d.Envelope, err)
	}
	return d
}

func TestDurableRequestWaitsForAWorker(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{}))
	publish(t, bus, "1")
	if err := bus.TryPublish(&relay.Envelope{Subject: "jobs.a"}); !errors.Is(err, cosync.ErrWouldBlock) {
		t.Errorf("TryPublish: %v", err)
	}
	b.Kill(0)
	if err := b.Restart(0); err != nil {
		t.Fatal(err)
	}
	bus = connect(t, b, durable(nats.Durable{}))
	next(t, subscribe(t, bus), "1", 1).Settle(relay.Outcome{})
}

// TestDurableRequestIsNotKeptByABusyWorker: a worker fetches nothing while it has no call of
// Next, so the request goes to one that has.
func TestDurableRequestIsNotKeptByABusyWorker(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	busy, free := connect(t, b, durable(nats.Durable{})), connect(t, b, durable(nats.Durable{}))
	s, other := subscribe(t, busy), subscribe(t, free)
	for i := range 5 {
		first, second := fmt.Sprint("first ", i), fmt.Sprint("second ", i)
		publish(t, free, first)
		d := next(t, s, first, 1)
		publish(t, free, second)
		got := make(chan relay.Delivery, 1)
		go func() {
			if d, err := other.Next(t.Context()); err == nil {
				got <- d
			}
		}()
		until.Holds(t, func() bool { return len(got) > 0 || nats.Arrived(s) > 0 })
		if nats.Arrived(s) > 0 {
			t.Fatal("a worker that is busy has fetched a request")
		}
		(<-got).Settle(relay.Outcome{})
		d.Settle(relay.Outcome{})
	}
}

func TestDurableRequestSurvivesItsWorker(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := durable(nats.Durable{AckWait: 2 * time.Second})
	bus, dying := connect(t, b, o), connect(t, b, o)
	publish(t, bus, "1")
	next(t, subscribe(t, dying), "1", 1)
	dying.Close() // without settling it
	next(t, subscribe(t, bus), "1", 2).Settle(relay.Outcome{})
}

// TestDurableRequestThatNoCallTakes goes back when the bus closes, and does not wait for AckWait.
func TestDurableRequestThatNoCallTakes(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := durable(nats.Durable{AckWait: time.Hour})
	bus, other := connect(t, b, o), connect(t, b, o)
	s := subscribe(t, bus)
	_, stream := streamOf(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan error)
	go func() {
		_, err := s.Next(ctx)
		left <- err
	}()
	until.Holds(t, func() bool { return fetches(t, stream) })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	publish(t, other, "1")
	until.Holds(t, func() bool { return nats.Arrived(s) == 1 })
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	limited, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	d, err := subscribe(t, other).Next(limited)
	if err != nil || string(d.Body) != "1" || d.Attempt != 2 {
		t.Fatalf("got %+v, %v", d.Envelope, err)
	}
	d.Settle(relay.Outcome{})
}

// fetches reports whether a worker waits for a request of a stream.
func fetches(t *testing.T, s jetstream.Stream) bool {
	t.Helper()
	consumers := s.ListConsumers(t.Context())
	waiting := 0
	for info := range consumers.Info() {
		waiting += info.NumWaiting
	}
	if err := consumers.Err(); err != nil {
		t.Fatal(err)
	}
	return waiting > 0
}

func TestDurableRequestIsTriedAgainAndGivenUp(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := durable(nats.Durable{Attempts: 3, Backoff: []time.Duration{time.Millisecond}})
	var log strings.Builder // written by Settle
	o.ErrorLog = slog.New(slog.NewTextHandler(&log, nil))
	bus := connect(t, b, o)
	s := subscribe(t, bus)
	publish(t, bus, "bad")
	for attempt := range uint32(3) {
		next(t, s, "bad", attempt+1).Settle(relay.Outcome{Again: true})
	}
	publish(t, bus, "good")
	next(t, s, "good", 1).Settle(relay.Outcome{})
	if n := bus.Stats().Dead; n != 1 {
		t.Errorf("%d requests given up", n)
	}
	const want = "level=ERROR msg=\"relay/nats: a durable request is given up\" subject=jobs.a attempts=3 key=bad\n"
	if text := log.String(); !strings.HasSuffix(text, want) || strings.Count(text, "\n") != 1 {
		t.Errorf("log %q", text)
	}
}

// TestDurableWithAnEmptyBackoff has that of one with none.
func TestDurableWithAnEmptyBackoff(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{Backoff: []time.Duration{}}))
	s := subscribe(t, bus)
	publish(t, bus, "1")
	next(t, s, "1", 1).Settle(relay.Outcome{Again: true})
	next(t, s, "1", 2).Settle(relay.Outcome{})
}

// TestDurableStreamOnAnotherWorker: a second worker goes on where the first one has stopped,
// also beyond the window of the stream.
func TestDurableStreamOnAnotherWorker(t *testing.T) {
	const items, before = 100, 50
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := durable(nats.Durable{Backoff: []time.Duration{time.Millisecond}})
	handle := func(ctx context.Context, r *relay.Request) ([]byte, error) {
		for i := range items {
			if r.Attempt == 1 && i == before {
				<-ctx.Done() // the worker is stopped
				return nil, ctx.Err()
			}
			if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	_, stop := serve(t, connect(t, b, o), "jobs.a", handle, relay.ServeOptions{Drain: 100 * time.Millisecond})
	s, err := caller(t, connect(t, b, o)).Stream(t.Context(), relay.Envelope{Subject: "jobs.a"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range items {
		if i == before {
			stop()
			serve(t, connect(t, b, o), "jobs.a", handle, relay.ServeOptions{})
		}
		if item, err := s.Next(t.Context()); err != nil || string(item) != fmt.Sprint(i) {
			t.Fatalf("item %d is %q, %v", i, item, err)
		}
	}
	if _, err := s.Next(t.Context()); err != io.EOF {
		t.Error(err)
	}
}

// TestCallerOfARequestThatIsGivenUp: the caller gets a failure, and does not wait until its
// deadline.
func TestCallerOfARequestThatIsGivenUp(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{Attempts: 2, Backoff: []time.Duration{time.Millisecond}}))
	var tried atomic.Int64
	serve(t, bus, "jobs.a", func(context.Context, *relay.Request) ([]byte, error) {
		tried.Add(1)
		return nil, relay.ErrRetry
	}, relay.ServeOptions{})
	_, err := caller(t, bus).Call(t.Context(), "jobs.a", nil)
	var remote *relay.RemoteError
	if !errors.As(err, &remote) || remote.Code != "given-up" {
		t.Errorf("got %v", err)
	}
	if n := tried.Load(); n != 2 || bus.Stats().Dead != 1 {
		t.Errorf("tried %d times, %+v", n, bus.Stats())
	}
}

// TestRequestThatIsGivenUpWhileItRuns: a request that is delivered again while its handler
// runs may be tried too often, but the handler answers.
func TestRequestThatIsGivenUpWhileItRuns(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d attempts", attempts), func(t *testing.T) {
			b := start(t, broker.Options{Dir: t.TempDir()})
			bus := connect(t, b, durable(nats.Durable{Attempts: attempts, AckWait: time.Minute}))
			begun, release := make(chan struct{}), make(chan struct{})
			serve(t, bus, "jobs.a", func(context.Context, *relay.Request) ([]byte, error) {
				close(begun)
				<-release
				return []byte("done"), nil
			}, relay.ServeOptions{})
			c := caller(t, bus)
			ended := make(chan error, 1)
			go func() {
				reply, err := c.Call(t.Context(), "jobs.a", nil)
				if err == nil && string(reply) != "done" {
					err = fmt.Errorf("the reply is %q", reply)
				}
				ended <- err
			}()
			<-begun
			deliverAgain(t, b)
			until.Holds(t, func() bool { return bus.Stats().Dead == 1 })
			close(release)
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// deliverAgain makes the server deliver the first message of its only consumer again.
func deliverAgain(t *testing.T, b *broker.Broker) {
	t.Helper()
	js := jetStream(t, b)
	nc := js.Conn()
	streams := js.StreamNames(t.Context())
	for name := range streams.Name() {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for consumer := range s.ConsumerNames(t.Context()).Name() {
			if err := nc.Publish("$JS.ACK."+name+"."+consumer+".1.1.1.0.0", []byte("-NAK")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(streams.Err(), nc.Flush()); err != nil {
		t.Fatal(err)
	}
}

func TestDurableRequestIsStoredOnce(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{}))
	for _, key := range []string{"1", "1", "2", "1", "3"} {
		publish(t, bus, key)
	}
	s := subscribe(t, bus)
	for _, key := range []string{"1", "2", "3"} {
		next(t, s, key, 1).Settle(relay.Outcome{})
	}
}

func TestDurableQueueIsBounded(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{MaxRequests: 2}))
	publish(t, bus, "1")
	publish(t, bus, "2")
	if err := bus.Publish(t.Context(), &relay.Envelope{Subject: "jobs.a"}); !errors.Is(err, relay.ErrFull) {
		t.Errorf("got %v", err)
	}
}

// TestDurableCallDoesNotWaitWhenFull: with FailWhenFull a call is stored, or fails if the
// queue is full.
func TestDurableCallDoesNotWaitWhenFull(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{MaxRequests: 1}))
	c, err := relay.NewCaller(t.Context(), bus, relay.CallerOptions{FailWhenFull: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "jobs.a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), "jobs.a", nil); !errors.Is(err, relay.ErrFull) {
		t.Errorf("in a full queue: %v", err)
	}
	s.Close()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestDurableRequestOfASlowHandler: while a handler runs, the server is told that it does, several times in
// each AckWait.
func TestDurableRequestOfASlowHandler(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	const ackWait = 600 * time.Millisecond
	bus := connect(t, b, durable(nats.Durable{AckWait: ackWait}))
	s := subscribe(t, bus)
	told, err := plainClient(t, b).SubscribeSync("$JS.ACK.>")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, bus, "slow")
	began := time.Now()
	d := next(t, s, "slow", 1)
	// The server counts AckWait from the last of these. A test of what it does then would need a machine
	// that is never late.
	for n := 0; n < 4 || time.Since(began) < ackWait; n++ {
		m, err := told.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) != "+WPI" {
			t.Fatalf("the server is told %q", m.Data)
		}
	}
	d.Settle(relay.Outcome{})
	for {
		m, err := told.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) == "+ACK" {
			break
		}
	}
}

// TestClusterLosesNoJob kills one of three servers while jobs are published and done.
func TestClusterLosesNoJob(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir(), Servers: 3})
	o := durable(nats.Durable{Replicas: 3, AckWait: 5 * time.Second})
	const jobs = 1000
	publisher, worker := connect(t, b, o), connect(t, b, o)
	s := subscribe(t, worker)
	done := sync.Map{}
	var count atomic.Int64
	all := make(chan bool)
	for range 8 {
		go func() {
			for d, err := s.Next(t.Context()); err == nil; d, err = s.Next(t.Context()) {
				if _, twice := done.LoadOrStore(string(d.Body), true); !twice && count.Add(1) == jobs {
					close(all)
				}
				d.Settle(relay.Outcome{})
			}
		}()
	}
	for i := range jobs {
		if i == jobs/3 {
			b.Kill(1)
		}
		key := fmt.Sprint("job ", i)
		for {
			e := &relay.Envelope{Subject: "jobs.a", Body: []byte(key), Headers: map[string]string{relay.IdempotencyKey: key}}
			err := publisher.Publish(t.Context(), e)
			if err == nil {
				break
			}
			if !errors.Is(err, relay.ErrDown) {
				t.Fatalf("job %d: %v", i, err)
			}
			until.Holds(t, func() bool { return publisher.Ready() == nil }) // the same key, so it is stored once
		}
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%d of %d jobs were done", count.Load(), jobs)
	}
}

// silentStream replaces the stream of a bus by a subscriber that never answers, so that requests
// to durable subjects are neither stored nor refused. It calls arrived for each of them.
func silentStream(t *testing.T, b *broker.Broker, arrived func()) {
	t.Helper()
	js := jetStream(t, b)
	nc := js.Conn()
	if err := js.DeleteStream(t.Context(), "SPINDLE"); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("jobs.>", func(*client.Msg) { arrived() }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// inTasksAndGoroutines runs a test in a task and on a goroutine.
func inTasksAndGoroutines(t *testing.T, test func(t *testing.T, run func(ctx context.Context, fn func(context.Context) error) error)) {
	t.Run("in a task", func(t *testing.T) { test(t, spindle.Run) })
	t.Run("on a goroutine", func(t *testing.T) {
		test(t, func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) })
	})
}

// TestDeadlineWhileARequestIsStored: the call fails with spindle.ErrTimeout, and workers are
// notified, because the server may have the request.
func TestDeadlineWhileARequestIsStored(t *testing.T) {
	inTasksAndGoroutines(t, func(t *testing.T, run func(context.Context, func(context.Context) error) error) {
		b := start(t, broker.Options{Dir: t.TempDir()})
		bus := connect(t, b, durable(nats.Durable{}))
		var arrived atomic.Int64
		silentStream(t, b, func() { arrived.Add(1) })
		c := caller(t, bus)
		deadline := 50 * time.Millisecond
		for calls := uint64(1); arrived.Load() == 0; calls++ { // on a busy machine a deadline may pass before the request is sent
			deadline *= 2
			err := run(t.Context(), func(ctx context.Context) error {
				_, err := c.Do(ctx, relay.Envelope{Subject: "jobs.a", Deadline: deadline})
				return err
			})
			if !errors.Is(err, spindle.ErrTimeout) || errors.Is(err, relay.ErrDown) {
				t.Errorf("got %v", err)
			}
			if n := c.Stats().TimedOut; n != calls {
				t.Errorf("%d of %d calls have timed out", n, calls)
			}
		}
		if c.Stats().CancelsSent == 0 {
			t.Errorf("%+v", c.Stats())
		}
	})
}

// TestContextThatEndsWhileARequestIsStored: Publish fails with its cause.
func TestContextThatEndsWhileARequestIsStored(t *testing.T) {
	inTasksAndGoroutines(t, func(t *testing.T, run func(context.Context, func(context.Context) error) error) {
		b := start(t, broker.Options{Dir: t.TempDir()})
		bus := connect(t, b, durable(nats.Durable{}))
		why := errors.New("the reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		silentStream(t, b, func() { cancel(why) })
		err := run(ctx, func(ctx context.Context) error {
			return bus.Publish(ctx, &relay.Envelope{Subject: "jobs.a"})
		})
		if !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}
