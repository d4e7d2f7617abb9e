package nats_test

import (
	"context"
	"testing"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// TestRequestsWakeOneAtATime: requests that come together wake one call of Next. It wakes the
// next one if there is more, even if it does not come back itself. Those that wait count as
// space in the queue, woken or not.
func TestRequestsWakeOneAtATime(t *testing.T) {
	const waiting, requests = 4, 5 // the queue has space for one
	b := start(t, broker.Options{})
	bus, publisher := connect(t, b, nats.Options{Queue: 1}), connect(t, b, nats.Options{})
	plain, err := client.Connect(b.URL(), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	refused, err := plain.SubscribeSync("refused")
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Flush(); err != nil {
		t.Fatal(err)
	}
	s, err := bus.Subscribe(t.Context(), "together", "workers")
	if err != nil {
		t.Fatal(err)
	}
	held, release := make(chan bool), make(chan bool)
	taken := 0
	ran := make(chan error, 1)
	go func() {
		ran <- spindle.Run(context.Background(), func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range waiting {
					n.Go(func(ctx context.Context) error {
						if _, err := s.Next(ctx); err != nil {
							return err
						}
						taken++
						return nil // as if its handler blocked
					})
				}
				for nats.Asleep(s) < waiting {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				held <- true
				<-release // blocks the loop, so that no task can run
				return nil
			})
		})
	}()
	<-held
	for range requests + 1 {
		if err := publisher.Publish(t.Context(), &relay.Envelope{Subject: "together", ReplyTo: "refused"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := refused.NextMsgWithContext(t.Context()); err != nil { // the last one: all others have come before
		t.Fatal(err)
	}
	if n := nats.Queued(s); n != requests {
		t.Errorf("%d requests in the queue, want %d", n, requests)
	}
	if n := nats.Asleep(s); n != waiting-1 {
		t.Errorf("%d calls of Next are not being woken, want %d", n, waiting-1)
	}
	close(release)
	if err := <-ran; err != nil || taken != waiting {
		t.Errorf("%d calls of Next have a request, want %d: %v", taken, waiting, err)
	}
	if _, err := s.Next(t.Context()); err != nil {
		t.Errorf("the request that was in the queue: %v", err)
	}
	s.Close()
}

// TestQueueThatIsNeverEmptyStaysSmall: a worker with more requests than it can serve has its
// memory for those that wait only.
func TestQueueThatIsNeverEmptyStaysSmall(t *testing.T) {
	if n := nats.QueueCapacity(100_000); n > 64 {
		t.Errorf("memory for %d requests, where two wait", n)
	}
}

// panics is a context that panics when a call waits for its end.
type panics struct{ context.Context }

func (panics) Done() <-chan struct{} { panic("Done") }

// TestNextAfterAPanic: a call of Next that panics, as one does in a callback of a loop, leaves the
// queue as it was.
func TestNextAfterAPanic(t *testing.T) {
	if err := nats.NextAfterAPanic(t.Context(), panics{t.Context()}); err != nil {
		t.Error(err)
	}
}
