package nats_test

import (
	"context"
	"testing"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
	"github.com/spindleloop/spindle/relay/relaytest"
)

func TestConformance(t *testing.T) {
	b := start(t, broker.Options{})
	relaytest.Run(t, relaytest.Config{Unseen: true, Connect: func(ctx context.Context) (relay.Bus, error) {
		return nats.Connect(ctx, b.URL(), nats.Options{NATS: []client.Option{patient}})
	}})
}
