package ws_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/ws"
)

// TestReadFollowsItsContextInASimulation has a context that is no scope. It ends at its time, in each
// run of the world.
func TestReadFollowsItsContextInASimulation(t *testing.T) {
	for seed := range uint64(20) {
		w := sim.NewWorld(seed)
		_, client := world(w, ws.Options{}, func() ws.Handler { return &watching{ended: func(error) {}} })
		client.Go(func(ctx context.Context) error {
			c, err := reach(ctx, ws.Options{})
			if err != nil {
				return err
			}
			began := w.Now()
			limited, cancel := context.WithCancel(ctx)
			defer cancel()
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				defer cancel()
				return spindle.Sleep(ctx, time.Second)
			})
			if _, _, err := c.Read(limited); !errors.Is(err, context.Canceled) || w.Now()-began != time.Second {
				t.Errorf("seed %d: %v after %v", seed, err, w.Now()-began)
			}
			return nil
		})
		if err := w.Run(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
