package nats_test

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// start starts servers for a test. They do not notice that a client is silent, because a busy machine
// may keep one from answering.
func start(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	configure := o.Configure
	o.Configure = func(so *server.Options) {
		so.PingInterval = time.Hour
		if configure != nil {
			configure(so)
		}
	}
	return startStrict(t, o)
}

// startStrict starts servers that notice silent clients, as all of package broker do. A test that waits
// for something that never comes ends the program with all stacks, long before the time of the whole
// package is over.
func startStrict(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	if os.Getenv("SPINDLE_NATS_CALLS") == "" && os.Getenv("SPINDLE_NATS_FAULTY_CALLS") == "" {
		limit := time.AfterFunc(5*time.Minute, func() {
			debug.SetTraceback("all")
			panic(t.Name() + " has not ended after five minutes")
		})
		t.Cleanup(func() { limit.Stop() })
	}
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// patient lets a connection take its time on a busy machine: to be made, and to answer pings.
func patient(o *client.Options) error {
	o.Timeout, o.PingInterval = time.Minute, time.Hour
	return nil
}

// watchful makes a client notice a server that is silent, as that of a bus does.
var watchful = client.PingInterval(nats.PingInterval)

// plainClient connects a client without relay, until the test ends.
func plainClient(t testing.TB, b *broker.Broker) *client.Conn {
	t.Helper()
	nc, err := client.Connect(b.URL(), patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// jetStream returns the JetStream of a server, for a client without relay.
func jetStream(t testing.TB, b *broker.Broker) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(plainClient(t, b), jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// connect makes a bus that is closed at the end of the test. It is patient unless o says otherwise.
func connect(t testing.TB, b *broker.Broker, o nats.Options) *nats.Bus {
	t.Helper()
	o.NATS = append([]client.Option{patient}, o.NATS...)
	bus, err := nats.Connect(t.Context(), b.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bus.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return bus
}

// serve runs a worker until the test ends, and returns when it serves. Stop ends it.
func serve(t testing.TB, bus relay.Bus, subject string, h relay.Handler, o relay.ServeOptions) (w *relay.Worker, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w = relay.NewWorker(bus)
	ended, ready := make(chan error, 1), make(chan bool)
	o.Ready = func() { close(ready) }
	go func() { ended <- w.Serve(ctx, subject, h, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return w, stop
}

func caller(t testing.TB, bus relay.Bus) *relay.Caller {
	t.Helper()
	c, err := relay.NewCaller(t.Context(), bus, relay.CallerOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
