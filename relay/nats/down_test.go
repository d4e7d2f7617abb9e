package nats_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// down returns a server that is down, and starts it. Nothing else gets its address meanwhile.
func down(t *testing.T, o broker.Options) (b *broker.Broker, up func()) {
	t.Helper()
	b = start(t, o)
	b.Kill(0)
	return b, func() {
		t.Helper()
		if err := b.Restart(0); err != nil {
			t.Fatal(err)
		}
	}
}

// ready returns the status and the text of a readiness check.
func ready(bus relay.Bus) (int, string) {
	w := httptest.NewRecorder()
	gateway.Ready(bus).ServeHTTP(w, httptest.NewRequest("GET", "/ready", nil))
	return w.Code, w.Body.String()
}

// becomes waits until a readiness check has a status.
func becomes(t *testing.T, bus relay.Bus, status int) {
	t.Helper()
	until.Holds(t, func() bool {
		got, _ := ready(bus)
		return got == status
	})
}

// TestServerThatIsDown: without a server Connect fails, or waits for one and says so.
func TestServerThatIsDown(t *testing.T) {
	b, up := down(t, broker.Options{})
	_, err := nats.Connect(t.Context(), b.URL(), nats.Options{})
	if !errors.Is(err, relay.ErrDown) || !strings.Contains(err.Error(), b.URL()) {
		t.Fatalf("got %v", err)
	}
	bus := connect(t, b, nats.Options{WaitForServer: true})
	if status, text := ready(bus); status != http.StatusServiceUnavailable || !strings.Contains(text, "not connected") {
		t.Errorf("ready: %d %s", status, text)
	}
	if _, err := relay.NewCaller(t.Context(), bus, relay.CallerOptions{}); !errors.Is(err, relay.ErrDown) {
		t.Errorf("a caller: %v", err)
	}
	up()
	becomes(t, bus, http.StatusOK)
	serve(t, connect(t, b, nats.Options{}), "echo", echo, relay.ServeOptions{})
	if got, err := caller(t, bus).Call(t.Context(), "echo", []byte("up")); string(got) != "up" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestServerThatGoesDown: calls fail while the server is gone, with no waiter left, and
// succeed when it is back.
func TestServerThatGoesDown(t *testing.T) {
	b := start(t, broker.Options{})
	bus := connect(t, b, nats.Options{})
	serve(t, bus, "echo", echo, relay.ServeOptions{})
	c := caller(t, bus)
	b.Kill(0)
	becomes(t, bus, http.StatusServiceUnavailable)
	if _, err := c.Call(t.Context(), "echo", nil); !errors.Is(err, relay.ErrDown) {
		t.Errorf("got %v", err)
	}
	if n := c.Stats().Waiting; n != 0 {
		t.Errorf("%d waiters", n)
	}
	if err := b.Restart(0); err != nil {
		t.Fatal(err)
	}
	becomes(t, bus, http.StatusOK)
	for {
		_, err := c.Call(t.Context(), "echo", nil)
		if err == nil {
			break
		}
		if !errors.Is(err, relay.ErrNoResponder) && !errors.Is(err, relay.ErrDown) { // until the worker's subscription is there again
			t.Fatalf("got %v", err)
		}
	}
	if bus.Stats().Reconnects == 0 {
		t.Errorf("%+v", bus.Stats())
	}
}

// TestServerOfDurableSubjectsThatIsDown: the bus makes its streams when the server is there,
// and is not ready before.
func TestServerOfDurableSubjectsThatIsDown(t *testing.T) {
	b, up := down(t, broker.Options{Dir: t.TempDir()})
	o := durable(nats.Durable{})
	o.WaitForServer = true
	bus := connect(t, b, o)
	if err := bus.Ready(); !errors.Is(err, relay.ErrDown) {
		t.Errorf("ready: %v", err)
	}
	up()
	becomes(t, bus, http.StatusOK)
	publish(t, bus, "1")
	next(t, subscribe(t, bus), "1", 1).Settle(relay.Outcome{})
}

// TestServerWithoutJetStream: a readiness check says why durable subjects cannot be used.
func TestServerWithoutJetStream(t *testing.T) {
	b, up := down(t, broker.Options{})
	o := durable(nats.Durable{})
	o.WaitForServer = true
	bus := connect(t, b, o)
	up()
	until.Holds(t, func() bool {
		status, text := ready(bus)
		if status == http.StatusOK {
			t.Fatal("ready without streams")
		}
		return strings.Contains(text, "stream SPINDLE")
	})
}

// deafDialer makes connections that write nothing while deaf is set, as if the server had stopped.
type deafDialer struct{ deaf atomic.Bool }

func (d *deafDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return deafConn{c, d}, err
}

type deafConn struct {
	net.Conn
	d *deafDialer
}

func (c deafConn) Write(p []byte) (int, error) {
	if c.d.deaf.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestCloseWithoutAnAnswer: Close does not hide that the server may not have everything.
func TestCloseWithoutAnAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the server for seconds")
	}
	d := new(deafDialer)
	bus, err := nats.Connect(t.Context(), start(t, broker.Options{}).URL(), nats.Options{NATS: []client.Option{patient, watchful, client.SetCustomDialer(d)}})
	if err != nil {
		t.Fatal(err)
	}
	d.deaf.Store(true)
	// Unanswered pings end the connection before Close gives up, unless the machine is busy.
	if err := bus.Close(); !errors.Is(err, client.ErrConnectionClosed) && !errors.Is(err, client.ErrTimeout) {
		t.Errorf("Close: %v", err)
	}
}

// TestTasksDoNotWaitForTheClient has a server that says nothing to a client that connects. The client
// holds its mutex meanwhile, and tasks ask Ready for each call.
func TestTasksDoNotWaitForTheClient(t *testing.T) {
	ln, conns := accepting(t)
	returned := make(chan struct{})
	late := client.CustomReconnectDelay(func(int) time.Duration { <-returned; return 0 })
	go func() { (<-conns).Close() }() // the first attempt fails, so that Connect returns
	bus, err := nats.Connect(t.Context(), "nats://"+ln.Addr().String(), nats.Options{
		WaitForServer: true, ErrorLog: new(text).logger(), NATS: []client.Option{client.Timeout(time.Hour), late}})
	close(returned)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	silent := <-conns
	defer func() { // before bus.Close, which waits for the client
		ln.Close()
		silent.Close()
	}()
	inTask(t, func() {
		if err := bus.Ready(); !errors.Is(err, relay.ErrDown) {
			t.Errorf("Ready: %v", err)
		}
	})
}

// TestTasksDoNotWaitForTheClientAgain: the connection was lost, and the bus has not noted it, because an
// earlier event takes long.
func TestTasksDoNotWaitForTheClientAgain(t *testing.T) {
	ln, conns := accepting(t)
	log := slow{begun: make(chan struct{}), end: make(chan struct{})}
	first := make(chan net.Conn, 1)
	go func() {
		c := <-conns
		io.WriteString(c, "INFO {\"version\":\"2.10.0\",\"headers\":true,\"max_payload\":1048576}\r\n")
		first <- c
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if lines.Text() == "PING" {
				io.WriteString(c, "PONG\r\n")
			}
		}
	}()
	bus, err := nats.Connect(t.Context(), "nats://"+ln.Addr().String(), nats.Options{
		ErrorLog: slog.New(slog.NewTextHandler(log, nil)), NATS: []client.Option{client.Timeout(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	c := <-first
	io.WriteString(c, "-ERR 'Permissions Violation for Subscription to \"nothing\"'\r\n")
	<-log.begun
	c.Close()
	silent := <-conns
	defer func() { // before bus.Close, which waits for the client
		close(log.end)
		ln.Close()
		silent.Close()
	}()
	inTask(t, func() {
		if err := bus.TryPublish(&relay.Envelope{Kind: relay.KindRequest, Subject: "work"}); err != nil {
			t.Errorf("TryPublish: %v", err)
		}
	})
}

// slow is a log that takes long.
type slow struct{ begun, end chan struct{} }

func (s slow) Write(p []byte) (int, error) {
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
	<-s.end
	return len(p), nil
}

// accepting returns a listener, and what it accepts.
func accepting(t *testing.T) (net.Listener, <-chan net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	conns := make(chan net.Conn)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case conns <- c:
			case <-t.Context().Done():
				c.Close()
				return
			}
		}
	}()
	return ln, conns
}

// inTask calls a function in a task, which must not wait.
func inTask(t *testing.T, call func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		ended <- spindle.Run(t.Context(), func(context.Context) error {
			call()
			return nil
		})
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a task waits for the client")
	}
}
