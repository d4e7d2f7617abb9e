package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

// TestCancelWakesSend, also with a context that is not the handler's.
func TestCancelWakesSend(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	ended := make(chan error, 1)
	serve(t, bus, "endless", relay.ServeOptions{}, func(_ context.Context, r *relay.Request) (_ []byte, err error) {
		for err == nil {
			err = r.Send(context.Background(), nil)
		}
		ended <- err
		return nil, err
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	s, err := c.Stream(t.Context(), "endless", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.Close()
}

// refusing is a bus that does not take the first credit.
type refusing struct {
	*relay.Local
	refused bool
}

func (b *refusing) TryPublish(e *relay.Envelope) error {
	if e.Kind == relay.KindCredit && !b.refused {
		b.refused = true
		return relay.ErrFull
	}
	return b.Local.TryPublish(e)
}

// TestCreditThatIsNotTaken is sent again.
func TestCreditThatIsNotTaken(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			bus := &refusing{Local: relay.NewLocal(relay.LocalOptions{})}
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "count", func(ctx context.Context, r *relay.Request) ([]byte, error) {
					for i := range 10 {
						if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
							return nil, err
						}
					}
					return nil, nil
				}, relay.ServeOptions{Run: relay.InTasks})
			})
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			c := newCaller(t, ctx, bus, relay.CallerOptions{Window: 3})
			s, err := c.Stream(ctx, "count", nil)
			if err != nil {
				return err
			}
			defer s.Close()
			for i := range 10 {
				if item, err := s.Next(ctx); err != nil || string(item) != fmt.Sprint(i) {
					return fmt.Errorf("item %d is %q, %w", i, item, err)
				}
			}
			if _, err := s.Next(ctx); err != io.EOF {
				t.Error(err)
			}
			return c.Close()
		})
	})
}

// TestGroupThatEnds while a publisher waits for it does not keep others from the envelope.
func TestGroupThatEnds(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
		var subs []relay.Subscription
		for _, group := range []string{"a", "b"} {
			sub, err := bus.Subscribe(ctx, "work", group)
			if err != nil {
				return err
			}
			defer sub.Close()
			subs = append(subs, sub)
		}
		publish := func(ctx context.Context) error {
			return bus.Publish(ctx, &relay.Envelope{Kind: relay.KindItem, Subject: "work"})
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			if err := publish(ctx); err != nil {
				return err
			}
			n.Go(publish)
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			subs[0].Close()
			for range 2 {
				if _, err := subs[1].Next(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// TestClosedLoops are forgotten.
func TestClosedLoops(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "echo", relay.ServeOptions{}, echo)
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	for range 10 {
		err := spindle.Run(t.Context(), func(ctx context.Context) error {
			if _, err := c.Call(ctx, "echo", nil); err != nil {
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Planes(); n > 1 {
		t.Errorf("%d loops", n)
	}
	c.Close()
}
