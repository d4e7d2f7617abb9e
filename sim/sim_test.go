package sim_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) {
	short.Parallel()
	leak.Main(m)
}

// An hour passes at once.
func ExampleRun() {
	err := sim.Run(context.Background(), func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		if err := spindle.Sleep(ctx, time.Hour); err != nil {
			return err
		}
		fmt.Println("slept for", spindle.Now(ctx).Sub(begin))
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

// TestRealDescriptorsAreNotOpen: a simulated program cannot use a real descriptor.
func TestRealDescriptorsAreNotOpen(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		if err := spindle.WaitReadable(ctx, 0); !errors.Is(err, syscall.EBADF) {
			t.Errorf("a real descriptor: %v", err)
		}
		if _, err := spindle.LoopOf(ctx).Internal().Kernel().Read(0, make([]byte, 1)); err != syscall.EBADF {
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
