package relay_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/relay"
)

// TestManyPullers: with more pullers than are kept idle, all handlers run at the same time
// again and again, and Serve ends.
func TestManyPullers(t *testing.T) {
	const handlers = 200
	for range 5 {
		bus := relay.NewLocal(relay.LocalOptions{})
		var entered sync.WaitGroup
		_, stop := serve(t, bus, "work", relay.ServeOptions{Concurrency: handlers}, func(context.Context, *relay.Request) ([]byte, error) {
			entered.Done()
			entered.Wait() // until all are here
			return nil, nil
		})
		c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
		for range 10 {
			entered.Add(handlers)
			var all sync.WaitGroup
			for range handlers {
				all.Go(func() {
					if _, err := c.Call(t.Context(), "work", nil); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c.Close()
	}
}
