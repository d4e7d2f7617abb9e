package relaysim_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/relaysim"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/relaytest"
	"github.com/spindleloop/spindle/sim"
)

// TestBus: the bus between simulated hosts obeys the contract of a bus.
func TestBus(t *testing.T) {
	relaytest.Run(t, relaytest.Config{
		Connect: func(ctx context.Context) (relay.Bus, error) {
			return relaysim.Connect(spindle.RootNursery(ctx), "bus"), nil
		},
		Run: func(t *testing.T, program func(context.Context) error) {
			w := sim.NewWorld(1)
			w.Host("bus").Serve(relaysim.Host)
			w.Host("test").Go(program)
			if err := w.Run(); err != nil {
				t.Fatal(err)
			}
		},
		Background: true,
		Unseen:     true,
	})
}
