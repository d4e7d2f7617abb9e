package nats_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// A worker and a caller on one broker. In production they are programs on different
// machines, and the broker is a cluster.
func Example() {
	b, err := broker.Start(broker.Options{})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	err = spindle.Run(context.Background(), func(ctx context.Context) error {
		bus, err := nats.Connect(ctx, b.URL(), nats.Options{})
		if err != nil {
			return err
		}
		defer bus.Close()
		caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
		if err != nil {
			return err
		}
		defer caller.Close()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var ready cosync.Event
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "shout", shout, relay.ServeOptions{
					Ready: ready.Set,
				})
			})
			if err := ready.Wait(ctx); err != nil {
				return err
			}
			reply, err := caller.Call(ctx, "shout", []byte("hello"))
			fmt.Println(string(reply), err)
			n.Scope().Cancel(nil) // the worker drains
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// HELLO <nil>
	// <nil>
}

func shout(_ context.Context, r *relay.Request) ([]byte, error) {
	return []byte(strings.ToUpper(string(r.Body))), nil
}
