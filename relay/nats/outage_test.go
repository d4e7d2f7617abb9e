package nats_test

import (
	"context"
	"errors"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// silentJetStream stands for a JetStream that takes requests and does not answer. The channel
// gets a value for each request.
func silentJetStream(t *testing.T, b *broker.Broker) (asked chan struct{}) {
	t.Helper()
	asked = make(chan struct{}, 1000)
	nc, err := client.Connect(b.URL(), patient, client.RetryOnFailedConnect(true), client.ReconnectWait(time.Millisecond), client.ReconnectJitter(0, 0), client.MaxReconnects(-1))
	if err == nil {
		_, err = nc.Subscribe("$JS.API.>", func(*client.Msg) { asked <- struct{}{} })
	}
	if err == nil && nc.IsConnected() {
		err = nc.Flush() // without it, requests of others may arrive before the subscription
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return asked
}

// TestConnectEndsWithItsContext: also while it waits for JetStream.
func TestConnectEndsWithItsContext(t *testing.T) {
	b := start(t, broker.Options{})
	asked := silentJetStream(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	o := durable(nats.Durable{})
	o.NATS = append(o.NATS, patient)
	if _, err := nats.Connect(ctx, b.URL(), o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCloseDoesNotWaitForStreams that are made later, because no server could be reached.
func TestCloseDoesNotWaitForStreams(t *testing.T) {
	const limit = 20 * time.Second // less than the bus waits for a stream
	b := start(t, broker.Options{})
	b.Kill(0)
	o := durable(nats.Durable{})
	o.WaitForServer, o.NATS = true, append(o.NATS, patient)
	bus, err := nats.Connect(t.Context(), b.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	asked := silentJetStream(t, b)
	if err := b.Restart(0); err != nil {
		t.Fatal(err)
	}
	<-asked
	began := time.Now()
	if err := bus.Close(); err != nil || time.Since(began) > limit {
		t.Errorf("it took %v, %v", time.Since(began), err)
	}
}
