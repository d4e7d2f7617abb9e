package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// TestHedge: a call is sent again, to another worker, if the first does not answer. The first
// worker is cancelled when there is a reply.
func TestHedge(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	taken, canceled := make(chan bool, 1), make(chan bool, 1)
	for range 2 {
		serve(t, bus, "work", relay.ServeOptions{Concurrency: 1}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
			select {
			case taken <- true:
				<-ctx.Done()
				canceled <- true
			default:
			}
			return []byte("reply"), nil
		})
	}
	call := func(ctx context.Context) error {
		c := newCaller(t, ctx, bus, relay.CallerOptions{Hedge: time.Millisecond})
		reply, err := c.Call(ctx, "work", nil)
		if s := c.Stats(); err != nil || string(reply) != "reply" || s.Hedged == 0 || s.Replied != 1 || s.CancelsSent != 1 {
			t.Errorf("%q, %v, %+v", reply, err, s)
		}
		return c.Close()
	}
	again := func() { <-canceled; <-taken }
	t.Run("on a goroutine", func(t *testing.T) {
		if err := call(t.Context()); err != nil {
			t.Error(err)
		}
		again()
	})
	t.Run("in a task", func(t *testing.T) {
		if err := spindle.Run(t.Context(), call); err != nil {
			t.Error(err)
		}
		again()
	})
}

// TestHedgeEnds: a call that is sent again ends at its deadline.
func TestHedgeEnds(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Hedge: time.Millisecond, Timeout: 20 * time.Millisecond})
	defer c.Close()
	_, err := c.Call(t.Context(), "work", nil)
	if _, late := err.(*relay.TimeoutError); !late {
		t.Errorf("%v", err)
	}
}
