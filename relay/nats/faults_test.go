package nats_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// faultyCalls is how many calls TestCallsUnderFaults makes, half of them on one server and half
// on a cluster. The environment variable SPINDLE_NATS_FAULTY_CALLS changes it.
func faultyCalls(t *testing.T) int {
	text := os.Getenv("SPINDLE_NATS_FAULTY_CALLS")
	if text == "" {
		return 4000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 {
		t.Fatalf("SPINDLE_NATS_FAULTY_CALLS=%s: want a number of calls", text)
	}
	return n
}

// TestCallsUnderFaults makes calls from tasks and goroutines while servers and workers are killed, connections freeze or
// break, and credentials are refused, on servers that enforce permissions. Each call ends once,
// with its own reply or a documented error, and runs at most once.
func TestCallsUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, servers := range map[string]int{"one server": 1, "a cluster of three": 3} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			f := newFaulty(t, servers, faultyCalls(t)/2, rand.New(rand.NewPCG(seed, 0)))
			began := time.Now()
			f.run(t)
			t.Logf("%d calls in %v: %d replied, %v; faults %v; %d forged replies",
				f.began, time.Since(began).Round(time.Millisecond), f.replied.Load(), f.failures(), f.faults, f.forged)
		})
	}
}

// faulty is a system of callers, workers and servers that fail.
type faulty struct {
	b       *broker.Broker
	options []*server.Options
	random  *rand.Rand // of the goroutine that makes faults
	faults  map[string]int
	forged  int
	began   uint64 // calls

	calls   int         // at least
	all     atomic.Bool // kinds of faults were made
	next    atomic.Int64
	runs    []atomic.Int32 // of the handler, by call
	replied atomic.Int64
	errors  sync.Map // counts by the text of documented errors

	callers []*member
	workers []*member
	forger  *client.Conn
	victim  atomic.Pointer[client.Msg] // a request that the forger has got
}

// member is a connection, and what uses it.
type member struct {
	name    string
	breaker *breaker
	bus     *nats.Bus
	c       *relay.Caller // of a caller
	stop    func()        // of a worker
}

func newFaulty(t *testing.T, servers, calls int, random *rand.Rand) *faulty {
	f := &faulty{calls: calls, runs: make([]atomic.Int32, calls+1<<20), random: random, faults: map[string]int{}}
	users := map[string]*server.Permissions{"web": mayCall("work", "mail"), "work": mayServe("work"), "mail": mayServe("mail")}
	f.b = start(t, broker.Options{Servers: servers, Configure: func(o *server.Options) {
		f.options = append(f.options, o)
		for name, p := range users {
			o.Users = append(o.Users, &server.User{Username: name, Password: name, Permissions: p})
		}
	}})
	for range 2 {
		m := f.connect(t, "web")
		var err error
		if m.c, err = relay.NewCaller(t.Context(), m.bus, relay.CallerOptions{Timeout: 500 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		f.callers = append(f.callers, m)
	}
	for range 3 {
		m := f.connect(t, "work")
		f.serve(t, m)
		f.workers = append(f.workers, m)
	}
	forger, err := client.Connect(f.b.URL(), client.UserInfo("mail", "mail"), patient, client.MaxReconnects(-1), client.IgnoreAuthErrorAbort(),
		client.ReconnectWait(10*time.Millisecond), client.ErrorHandler(func(*client.Conn, *client.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forger.Close)
	f.forger = forger
	if _, err := forger.Subscribe("mail", func(m *client.Msg) {
		f.victim.Store(m)
		_ = m.Respond([]byte("mailed")) // without a connection the call times out
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *faulty) connect(t *testing.T, name string) *member {
	t.Helper()
	m := &member{name: name, breaker: newBreaker(t, f.b.URL())}
	o := as(name, nats.Options{ErrorLog: new(text).logger(), NATS: []client.Option{client.IgnoreDiscoveredServers(), client.Timeout(2 * time.Second)}})
	var err error
	until.Holds(t, func() bool { // servers may be down
		m.bus, err = nats.Connect(t.Context(), m.breaker.urls, o)
		return err == nil
	})
	return m
}

// serve serves until stop is called. A Serve that a fault has ended begins again.
func (f *faulty) serve(t *testing.T, m *member) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			err := relay.NewWorker(m.bus).Serve(ctx, "work", f.handle, relay.ServeOptions{Drain: 100 * time.Millisecond})
			if !errors.Is(err, context.Canceled) && !errors.Is(err, relay.ErrDown) && !errors.Is(err, relay.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	m.stop = func() {
		cancel()
		<-ended
	}
}

// handle answers with the body. A stream has the digits of the body as items first.
func (f *faulty) handle(ctx context.Context, r *relay.Request) ([]byte, error) {
	number, err := strconv.Atoi(string(r.Body))
	if err != nil || number >= len(f.runs) {
		return nil, fmt.Errorf("an unknown call: %q", r.Body)
	}
	f.runs[number].Add(1)
	if r.Seq > 0 {
		for i := range r.Body {
			if err := r.Send(ctx, r.Body[i:i+1]); err != nil {
				return nil, err
			}
		}
	}
	return r.Body, nil
}

func (f *faulty) run(t *testing.T) {
	var calling sync.WaitGroup
	for range 32 {
		calling.Go(func() { f.callAll(t.Context(), t, f.callers[0]) })
	}
	calling.Go(func() {
		err := spindle.Run(t.Context(), func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
				for range 32 {
					n.Go(func(ctx context.Context) error {
						f.callAll(ctx, t, f.callers[1])
						return nil
					})
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
	done := make(chan struct{})
	go func() {
		calling.Wait()
		close(done)
	}()
	f.breakThings(t, done)
	<-done
	var total relay.CallerStats
	for _, m := range f.callers {
		s := m.c.Stats()
		total.Calls += s.Calls
		total.Replied += s.Replied + s.TimedOut + s.Canceled + s.Failed
		total.Unknown += s.Unknown
		if err := m.c.Close(); err != nil {
			t.Error(err)
		}
	}
	f.began = total.Calls
	if total.Calls != total.Replied || total.Unknown != 0 || total.Calls < uint64(f.calls) {
		t.Errorf("%d calls began, %d ended; %d forged replies arrived", total.Calls, total.Replied, total.Unknown)
	}
	for number := range f.runs {
		if n := f.runs[number].Load(); n > 1 {
			t.Errorf("call %d ran %d times", number, n)
		}
	}
	for _, m := range f.workers {
		m.stop()
	}
	for _, m := range append(f.workers, f.callers...) {
		_ = m.bus.Close() // a server may be gone
	}
}

// callAll makes calls until there are enough. It is called in tasks and on goroutines.
func (f *faulty) callAll(ctx context.Context, t *testing.T, m *member) {
	for number := f.next.Add(1); number <= int64(f.calls) || !f.all.Load() && number < int64(len(f.runs)); number = f.next.Add(1) {
		f.call(ctx, t, m, int(number))
	}
}

// call makes a call, which must end with its own reply or a documented error.
func (f *faulty) call(ctx context.Context, t *testing.T, m *member, number int) {
	body := strconv.Itoa(number)
	var got string
	var err error
	switch {
	case number%50 == 0:
		got, err = f.stream(ctx, m, body)
	case number%101 == 0:
		if _, err = m.c.Call(ctx, "mail", nil); err == nil {
			got = body
		}
	default:
		var reply []byte
		reply, err = m.c.Call(ctx, "work", []byte(body))
		got = string(reply)
	}
	if err == nil {
		f.replied.Add(1)
		if got != body {
			t.Errorf("call %s got the reply %q", body, got)
		}
		return
	}
	kind := documented(err)
	if kind == "" {
		t.Errorf("call %s: %v", body, err)
		return
	}
	n, _ := f.errors.LoadOrStore(kind, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if errors.Is(err, relay.ErrDown) || errors.Is(err, relay.ErrNoResponder) { // as a program would
		pause(ctx, 5*time.Millisecond)
	}
}

// pause waits, in a task or on a goroutine.
func pause(ctx context.Context, d time.Duration) {
	if spindle.Current(ctx) == nil {
		time.Sleep(d)
		return
	}
	_ = spindle.Sleep(ctx, d) // a test that ends ends the calls, too
}

// stream returns the items of a stream in one text, without its end.
func (f *faulty) stream(ctx context.Context, m *member, body string) (string, error) {
	s, err := m.c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte(body)})
	if err != nil {
		return "", err
	}
	defer s.Close()
	var items strings.Builder
	for {
		item, err := s.Next(ctx)
		if err == io.EOF {
			return strings.TrimSuffix(items.String(), body), nil
		} else if err != nil {
			return "", err
		}
		items.Write(item)
	}
}

// documented returns the kind of an error that calls are documented to have, or "".
func documented(err error) string {
	var remote *relay.RemoteError
	switch {
	case errors.As(err, &remote):
		switch remote.Code {
		case "no-responder", "canceled", "deadline", "full":
			return remote.Code
		}
		return ""
	case errors.Is(err, spindle.ErrTimeout):
		return "time-out"
	}
	for _, known := range []error{relay.ErrDown, relay.ErrNoResponder, relay.ErrFull, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ""
}

func (f *faulty) failures() map[string]int64 {
	all := map[string]int64{}
	f.errors.Range(func(kind, n any) bool {
		all[kind.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	return all
}
