package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

// TestHedge: a call is sent again, to another worker, if the first does not answer. The first
// worker is cancelled when there is a reply.
func TestHedge(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	const onGoroutine, inTask = "on a goroutine", "in a task"
	taken := map[string]chan bool{onGoroutine: make(chan bool, 1), inTask: make(chan bool, 1)} // by the first copy of each call
	canceled := make(chan bool)
	for range 2 {
		serve(t, bus, "work", relay.ServeOptions{Concurrency: 1}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
			select {
			case taken[string(r.Body)] <- true:
				<-ctx.Done()
				canceled <- true
			default:
			}
			return []byte("reply"), nil
		})
	}
	call := func(ctx context.Context, name string) error {
		c := newCaller(t, ctx, bus, relay.CallerOptions{Hedge: time.Millisecond})
		reply, err := c.Call(ctx, "work", []byte(name))
		if s := c.Stats(); err != nil || string(reply) != "reply" || s.Hedged == 0 || s.Replied != 1 || s.CancelsSent != 1 {
			t.Errorf("%q, %v, %+v", reply, err, s)
		}
		return c.Close()
	}
	t.Run(onGoroutine, func(t *testing.T) {
		if err := call(t.Context(), onGoroutine); err != nil {
			t.Error(err)
		}
		<-canceled
	})
	t.Run(inTask, func(t *testing.T) {
		err := spindle.Run(t.Context(), func(ctx context.Context) error { return call(ctx, inTask) })
		if err != nil {
			t.Error(err)
		}
		<-canceled
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
	if !errors.Is(err, spindle.ErrTimeout) {
		t.Errorf("%v", err)
	}
}

// refusingCopies is a bus that refuses the second copy of a request, as a worker with a full queue does.
type refusingCopies struct {
	relay.Bus
	requests int
	refused  chan bool
}

func (b *refusingCopies) TryPublish(e *relay.Envelope) error {
	if e.Kind == relay.KindRequest {
		if b.requests++; b.requests == 2 {
			err := b.Bus.TryPublish(relay.NewFailure(e, "full", "no more"))
			close(b.refused)
			return err
		}
	}
	return b.Bus.TryPublish(e)
}

// TestHedgeIsRefused: if a copy of a request is refused, the reply to the first one still counts.
func TestHedgeIsRefused(t *testing.T) {
	bus := &refusingCopies{Bus: relay.NewLocal(relay.LocalOptions{}), refused: make(chan bool)}
	serve(t, bus.Bus, "work", relay.ServeOptions{Concurrency: 1}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		<-bus.refused
		return []byte("reply"), nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Hedge: time.Millisecond})
	defer c.Close()
	if reply, err := c.Call(t.Context(), "work", nil); err != nil || string(reply) != "reply" {
		t.Errorf("%q, %v", reply, err)
	}
}

// leaving is a bus that loses its last worker while a request is sent again: it answers the first one, and
// refuses the second one.
type leaving struct {
	relay.Bus
	first *relay.Envelope
}

func (b *leaving) TryPublish(e *relay.Envelope) error {
	switch {
	case e.Kind != relay.KindRequest:
	case b.first == nil:
		b.first = e
		return nil
	default:
		_ = b.Bus.TryPublish(relay.NewFailure(b.first, "no-responder", "the last worker has left"))
		return relay.ErrNoResponder
	}
	return b.Bus.TryPublish(e)
}

// TestHedgeWithoutWorkers: a call that is refused while it is sent again does not wait for its deadline.
func TestHedgeWithoutWorkers(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := &leaving{Bus: relay.NewLocal(relay.LocalOptions{})}
		c := newCaller(t, ctx, bus, relay.CallerOptions{Hedge: time.Second})
		began := spindle.Now(ctx)
		_, err := c.Call(ctx, "work", nil)
		if took := spindle.Now(ctx).Sub(began); !errors.Is(err, relay.ErrNoResponder) || took != time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		return c.Close()
	})
}
