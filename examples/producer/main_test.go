package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestEveryLoafIsEatenOnce(t *testing.T) {
	var out strings.Builder
	if err := spindle.Run(t.Context(), func(ctx context.Context) error { return run(ctx, 8, &out) }); err != nil {
		t.Fatal(err)
	}
	for loaf := 1; loaf <= 8; loaf++ {
		if n := strings.Count(out.String(), fmt.Sprintf("eats loaf %d\n", loaf)); n != 1 {
			t.Errorf("loaf %d was eaten %d times, in\n%s", loaf, n, out.String())
		}
	}
}

// TestTheProducerRunsAtTheConsumersPace compares the output, which is the same in every
// run under virtual time.
func TestTheProducerRunsAtTheConsumersPace(t *testing.T) {
	const want = `loaf 1 is on the shelf (1 of 2)
loaf 2 is on the shelf (2 of 2)
Ada eats loaf 1
Ben eats loaf 2
loaf 3 is on the shelf (1 of 2)
loaf 4 is on the shelf (2 of 2)
Ada eats loaf 3
loaf 5 is on the shelf (2 of 2)
Ada eats loaf 4
loaf 6 is on the shelf (2 of 2)
the baker goes home
Ben eats loaf 5
Ada eats loaf 6
`
	var out strings.Builder
	sim.Test(t, func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		if err := run(ctx, 6, &out); err != nil {
			return err
		}
		// Ben eats from 0 to 50 and to 100 ms, Ada at 0, 20, 40 and 60.
		if took := spindle.Now(ctx).Sub(begin); took != 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		return nil
	})
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTheProducerStopsWithoutConsumers(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		shelf, bread := cosync.NewChannel[int](capacity)
		bread.Close()
		if err := bake(ctx, shelf, 1, &strings.Builder{}); !errors.Is(err, cosync.ErrBroken) {
			t.Errorf("the producer ended with %v", err)
		}
		return nil
	})
}
