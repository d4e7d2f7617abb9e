package cosync_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// TestCancelAsAllAreServed: an Event, and the last to come to a Barrier, serve
// all who wait. One that is cancelled in the same turn was served if that came
// first; otherwise a Barrier waits for one more.
func TestCancelAsAllAreServed(t *testing.T) {
	for _, object := range []struct {
		name  string
		waits func() (wait func(context.Context) error, serve func(*spindle.Nursery))
		again bool // one that left must be replaced
	}{
		{"Event", func() (func(context.Context) error, func(*spindle.Nursery)) {
			var e cosync.Event
			return e.Wait, func(*spindle.Nursery) { e.Set() }
		}, false},
		{"Barrier", func() (func(context.Context) error, func(*spindle.Nursery)) {
			b := cosync.NewBarrier(3)
			wait := func(ctx context.Context) error {
				_, err := b.Wait(ctx)
				return err
			}
			return wait, func(n *spindle.Nursery) { n.GoWith(spindle.TaskOptions{Eager: true}, wait) }
		}, true},
	} {
		for _, cancelFirst := range []bool{false, true} {
			name := object.name + ", served first"
			if cancelFirst {
				name = object.name + ", cancelled first"
			}
			t.Run(name, func(t *testing.T) {
				var served, left []string
				simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
					wait, serve := object.waits()
					var scope *spindle.Scope
					for _, name := range []string{"first", "second"} {
						n.Go(func(ctx context.Context) error {
							return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
								if name == "first" {
									scope = s
								}
								err := wait(ctx)
								if err == nil {
									served = append(served, name)
								} else if errors.Is(err, context.Canceled) {
									left = append(left, name)
								}
								return err
							})
						})
					}
					if err := settle(ctx); err != nil {
						return err
					}
					if cancelFirst {
						scope.Cancel(nil)
						serve(n)
						if object.again {
							serve(n)
						}
					} else {
						serve(n)
						scope.Cancel(nil)
					}
					return settle(ctx)
				})
				want := []string{"first", "second"}
				if cancelFirst {
					want = want[1:]
				}
				if !slices.Equal(served, want) || len(served)+len(left) != 2 {
					t.Errorf("served %q, left %q", served, left)
				}
			})
		}
	}
}
