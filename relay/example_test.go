package relay_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

// A task calls a handler that runs on a goroutine, where it may block.
func Example() {
	bus := relay.NewLocal(relay.LocalOptions{})
	defer bus.Close()
	upper := func(ctx context.Context, r *relay.Request) ([]byte, error) {
		return []byte(strings.ToUpper(string(r.Body))), nil
	}
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var ready cosync.Event
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "upper", upper, relay.ServeOptions{Concurrency: 4, Ready: ready.Set})
			})
			if err := ready.Wait(ctx); err != nil { // the worker subscribes
				return err
			}
			caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
			if err != nil {
				return err
			}
			reply, err := caller.Call(ctx, "upper", []byte("hello"))
			fmt.Println(string(reply), err)
			n.Scope().Cancel(nil) // the worker drains
			return caller.Close()
		})
	})
	fmt.Println(err)
	// Output:
	// HELLO <nil>
	// <nil>
}

func ExampleCaller_Stream() {
	bus := relay.NewLocal(relay.LocalOptions{})
	defer bus.Close()
	countdown := func(ctx context.Context, r *relay.Request) ([]byte, error) {
		for i := 3; i > 0; i-- {
			if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
				return nil, err
			}
		}
		return []byte("lift-off"), nil
	}
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			var ready cosync.Event
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "countdown", countdown, relay.ServeOptions{Ready: ready.Set})
			})
			if err := ready.Wait(ctx); err != nil {
				return err
			}
			caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
			if err != nil {
				return err
			}
			defer caller.Close()
			s, err := caller.Stream(ctx, relay.Envelope{Subject: "countdown"})
			if err != nil {
				return err
			}
			defer s.Close()
			for {
				item, err := s.Next(ctx)
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
				fmt.Println(string(item))
			}
		})
	})
	fmt.Println(err)
	// Output:
	// 3
	// 2
	// 1
	// lift-off
	// <nil>
}
