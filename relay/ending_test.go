package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

// TestDrainInACancelledRun: handlers in tasks have the time of Drain, and of a Grace around Serve,
// even if it is longer than the grace period of the run.
func TestDrainInACancelledRun(t *testing.T) {
	for name, c := range map[string]struct {
		drain, takes time.Duration
		whole        bool
	}{
		"the default":                 {0, 8 * time.Second, true},
		"a long drain":                {time.Hour, 50 * time.Minute, true},
		"longer than the drain":       {8 * time.Second, time.Hour, false},
		"shorter than the run's time": {time.Second, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			whole := false
			err := sim.Run(t.Context(), func(ctx context.Context) error {
				bus := relay.NewLocal(relay.LocalOptions{})
				running := spindle.NewFuture[bool](ctx)
				spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
					return relay.NewWorker(bus).Serve(ctx, "work", func(ctx context.Context, _ *relay.Request) ([]byte, error) {
						running.Resolve(true)
						err := spindle.Sleep(ctx, c.takes)
						whole = err == nil
						return nil, err
					}, relay.ServeOptions{InTasks: true, Drain: c.drain})
				})
				if err := sim.WaitAllBlocked(ctx); err != nil {
					return err
				}
				if err := bus.Publish(ctx, &relay.Envelope{Subject: "work"}); err != nil {
					return err
				}
				_, err := running.Await(ctx)
				return err // and the run is cancelled
			})
			if err != nil || whole != c.whole {
				t.Errorf("the handler has run to its end: %v; the run ended with %v", whole, err)
			}
		})
	}
}
