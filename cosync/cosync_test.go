package cosync_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// simulate runs a program in a nursery under virtual time. A task that is stuck fails the
// test as a deadlock.
func simulate(t *testing.T, program func(ctx context.Context, n *spindle.Nursery) error) {
	t.Helper()
	sim.Test(t, func(ctx context.Context) error { return spindle.WithNursery(ctx, program) })
}

// settle lets every task run until it waits.
func settle(ctx context.Context) error {
	for range 10 {
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
	}
	return nil
}

// panicOf returns the value that fn panics with.
func panicOf(fn func()) (v any) {
	defer func() { v = recover() }()
	fn()
	return nil
}

func mustPanic(t *testing.T, want string, fn func()) {
	t.Helper()
	if got := panicOf(fn); got != want {
		t.Errorf("panic %v, want %q", got, want)
	}
}
