package nats_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// text is a log that can be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *text) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), s)
}

func (l *text) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// TestCredentialsThatAreRefusedForAWhile: the bus connects again when they are accepted, and its
// workers go on.
func TestCredentialsThatAreRefusedForAWhile(t *testing.T) {
	var o *server.Options
	b := start(t, broker.Options{Configure: func(so *server.Options) { o, so.Username, so.Password = so, "ada", "secret" }})
	var log text
	user := nats.Options{ErrorLog: log.logger(), NATS: []client.Option{client.UserInfo("ada", "secret")}}
	bus := connect(t, b, user)
	serve(t, bus, "echo", echo, relay.ServeOptions{})
	restart := func(password string) {
		b.Kill(0)
		o.Password = password
		if err := b.Restart(0); err != nil {
			t.Fatal(err)
		}
	}
	restart("another")
	until.Holds(t, func() bool { return bus.Stats().Errors >= 4 })
	if err := bus.Ready(); !errors.Is(err, relay.ErrDown) || !errors.Is(err, client.ErrAuthorization) {
		t.Errorf("ready: %v", err)
	}
	if !log.has("authorization violation") || bus.Stats().Disconnects == 0 {
		t.Errorf("%+v", bus.Stats())
	}
	restart("secret")
	until.Holds(t, func() bool { return bus.Ready() == nil })
	if got, err := caller(t, bus).Call(t.Context(), "echo", []byte("back")); string(got) != "back" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	until.Holds(t, func() bool { return log.has("disconnected") && log.has("connected again") })
}

// TestClientThatGivesUp: the bus closes, so that workers end instead of waiting for ever.
func TestClientThatGivesUp(t *testing.T) {
	b := start(t, broker.Options{})
	var log text
	bus := connect(t, b, nats.Options{ErrorLog: log.logger(), NATS: []client.Option{client.NoReconnect()}})
	ended, serving := make(chan error), make(chan bool)
	go func() {
		o := relay.ServeOptions{Ready: func() { close(serving) }}
		ended <- relay.NewWorker(bus).Serve(context.Background(), "echo", echo, o)
	}()
	<-serving
	b.Kill(0)
	if err := <-ended; !errors.Is(err, relay.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := bus.Ready(); !errors.Is(err, relay.ErrClosed) || !log.has("the bus closes") {
		t.Errorf("ready: %v", err)
	}
}

// TestWorkerThatMayNotSubscribe does not report that it is ready.
func TestWorkerThatMayNotSubscribe(t *testing.T) {
	for _, missing := range []string{"pay", "_cancel.pay", "_worker.*.pay"} {
		t.Run(missing, func(t *testing.T) {
			p := mayServe("pay")
			for i, s := range p.Subscribe.Allow {
				if s == missing {
					p.Subscribe.Allow[i] = "other"
				}
			}
			var log text
			bus := connect(t, guarded(t, map[string]*server.Permissions{"pay": p}), as("pay", nats.Options{ErrorLog: log.logger()}))
			o := relay.ServeOptions{Ready: func() { t.Error("ready") }}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := relay.NewWorker(bus).Serve(ctx, "pay", echo, o); !errors.Is(err, nats.ErrDenied) || !errors.Is(err, client.ErrPermissionViolation) {
				t.Errorf("Serve: %v", err)
			}
			until.Holds(t, func() bool { return bus.Stats().Errors == 1 && log.has("Permissions Violation") })
		})
	}
}

// TestWorkerThatMaySubscribeNoMore: the permissions have changed when it connects again.
func TestWorkerThatMaySubscribeNoMore(t *testing.T) {
	p := mayServe("pay")
	b := guarded(t, map[string]*server.Permissions{"pay": p})
	bus := connect(t, b, as("pay", nats.Options{ErrorLog: new(text).logger()}))
	ended, serving := make(chan error), make(chan bool)
	go func() {
		o := relay.ServeOptions{Ready: func() { close(serving) }}
		ended <- relay.NewWorker(bus).Serve(context.Background(), "pay", echo, o)
	}()
	<-serving
	b.Kill(0)
	p.Subscribe.Allow[0] = "other"
	if err := b.Restart(0); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, nats.ErrDenied) {
		t.Errorf("Serve: %v", err)
	}
}

// TestCallerThatMayNotPublish: the violation is logged and counted, because the call only times
// out.
func TestCallerThatMayNotPublish(t *testing.T) {
	var log text
	bus := connect(t, guarded(t, map[string]*server.Permissions{"web": mayCall("mail")}), as("web", nats.Options{ErrorLog: log.logger()}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		until.Holds(t, func() bool { return bus.Stats().Errors > 0 && log.has("pay") })
		cancel()
	}()
	if _, err := caller(t, bus).Call(ctx, "pay", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// freezer makes connections that carry nothing while frozen is set, in both directions, as if
// packets were lost.
type freezer struct{ frozen atomic.Bool }

func (f *freezer) Dial(network, address string) (net.Conn, error) {
	if f.frozen.Load() {
		return nil, errors.New("frozen")
	}
	c, err := net.Dial(network, address)
	return frozenConn{c, f}, err
}

type frozenConn struct {
	net.Conn
	f *freezer
}

func (c frozenConn) Write(p []byte) (int, error) {
	if c.f.frozen.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c frozenConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.f.frozen.Load() {
			return n, err
		}
	}
}

// TestFrozenServer is noticed, without a call.
func TestFrozenServer(t *testing.T) {
	if nats.NoticedAfter > 3*time.Second {
		t.Errorf("a server that does not answer is noticed after %v", nats.NoticedAfter)
	}
	f := new(freezer)
	b := start(t, broker.Options{Configure: func(o *server.Options) { o.PingInterval = time.Hour }})
	bus := connect(t, b, nats.Options{ErrorLog: new(text).logger(), NATS: []client.Option{watchful, client.SetCustomDialer(f)}})
	f.frozen.Store(true)
	until.Holds(t, func() bool { return errors.Is(bus.Ready(), relay.ErrDown) })
	f.frozen.Store(false)
	until.Holds(t, func() bool { return bus.Ready() == nil })
}

// TestPartitionedWorker gets no more calls when the server has noticed that it does not answer.
func TestPartitionedWorker(t *testing.T) {
	b := startStrict(t, broker.Options{})
	f := new(freezer)
	quiet := nats.Options{ErrorLog: new(text).logger()}
	reachable := connect(t, b, quiet)
	quiet.NATS = []client.Option{watchful, client.SetCustomDialer(f)}
	partitioned := connect(t, b, quiet)
	serve(t, reachable, "echo", echo, relay.ServeOptions{})
	serve(t, partitioned, "echo", echo, relay.ServeOptions{})
	c := caller(t, reachable)
	f.frozen.Store(true)
	until.Holds(t, func() bool {
		for range 20 {
			if _, err := c.Do(t.Context(), relay.Envelope{Subject: "echo", Deadline: 3 * time.Second}); err != nil {
				return false
			}
		}
		return true
	})
	f.frozen.Store(false)
	until.Holds(t, func() bool { return partitioned.Ready() == nil })
}
