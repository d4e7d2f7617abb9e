package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// TestEndedRelayCallsKeepNothing: neither the Caller nor the Worker nor the bus, which go on,
// keeps a call.
func TestEndedRelayCallsKeepNothing(t *testing.T) {
	for name, o := range map[string]relay.ServeOptions{"tasks": {InTasks: true}, "goroutines": {}} {
		t.Run(name, func(t *testing.T) { checkRelay(t, o) })
	}
}

func checkRelay(t *testing.T, o relay.ServeOptions) {
	w := &watch{}
	bus := relay.NewLocal(relay.LocalOptions{})
	handler := func(ctx context.Context, r *relay.Request) ([]byte, error) {
		follow(w, "request", r)
		follow(w, "body", &r.Body[0])
		if spindle.Current(ctx) != nil {
			return w.load("reply").data[:], nap(w.with(ctx), w)
		}
		return w.load("reply").data[:], nil
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			if _, err := spindle.Start(ctx, n, func(ctx context.Context, started func(bool)) error {
				o.Ready = func() { started(true) }
				return relay.NewWorker(bus).Serve(ctx, "load", handler, o)
			}); err != nil {
				return err
			}
			caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
			if err != nil {
				return err
			}
			err = several(ctx, w, func(ctx context.Context, w *watch) error {
				reply, err := caller.Call(w.with(ctx), "load", w.load("data").data[:])
				if err == nil {
					follow(w, "reply of the caller", &reply[0])
				}
				return err
			})
			if err == nil {
				err = w.collected(func() error { return spindle.Sleep(ctx, time.Millisecond) })
			}
			n.Scope().Cancel(nil)
			return errors.Join(err, caller.Close())
		})
	})
	if err != nil {
		t.Error(err)
	}
}
