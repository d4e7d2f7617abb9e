package sim_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// An hour passes at once.
func ExampleRun() {
	err := sim.Run(context.Background(), func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		if err := spindle.Sleep(ctx, time.Hour); err != nil {
			return err
		}
		fmt.Println("slept for", spindle.Now(ctx)-begin)
		return nil
	})
	fmt.Println(err)
	// Output:
	// slept for 1h0m0s
	// <nil>
}

func TestDeadlockIsNamed(t *testing.T) {
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		var never spindle.Lot
		return never.Wait(ctx, "godot")
	})
	if !errors.Is(err, sim.ErrDeadlock) {
		t.Fatal(err)
	}
}

func TestTheNetworkIsRefused(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		if _, err := spindle.LoopOf(ctx).Kernel().Socket(kernel.IPv4, kernel.Stream); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("socket: %v", err)
		}
		if err := spindle.WaitReadable(ctx, 0); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a real descriptor: %v", err)
		}
		return nil
	})
}

func TestOffloadedWorkRuns(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		n, err := spindle.Blocking(ctx, func() (int, error) { return 7, nil })
		if n != 7 {
			t.Errorf("got %d", n)
		}
		return err
	})
}
