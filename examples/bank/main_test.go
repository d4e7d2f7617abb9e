package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestTheProgram(t *testing.T) {
	var out strings.Builder
	if err := spindle.Run(t.Context(), func(ctx context.Context) error { return run(ctx, &out) }); err != nil {
		t.Fatal(err)
	}
	if out.String() != "alice 65 bob 135\n" {
		t.Errorf("it prints %q", out.String())
	}
}

// world sets up a bank and a client on two hosts, with a network that is partitioned from
// time to time. handle is the bank's handler. The accounts survive a crash.
func world(handle func(b *bank) func(ctx context.Context, c *stream.Conn) error) func(w *sim.World) {
	return func(w *sim.World) {
		b, orders := newBank(), w.Amount("orders", 5)
		w.Host("bank").Serve(func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", ":1000")
			if err != nil {
				return err
			}
			return stream.Serve(ctx, ln, handle(b))
		})
		given := 0
		w.Host("client").Go(func(ctx context.Context) error {
			for given < orders { // after a crash it continues with the unconfirmed order
				if err := transfer(ctx, "bank:1000", order{fmt.Sprint("order", given), "alice", "bob", 10}); err != nil {
					return err
				}
				given++
			}
			return nil
		})
		w.Always("no order is carried out twice", func() error {
			if moved := b.balance["bob"] - 100; moved > 10*(given+1) {
				return fmt.Errorf("%d were moved by %d orders", moved, given+1)
			}
			return nil
		})
		w.Eventually("every order is carried out", 5*time.Minute, func() bool { return b.balance["alice"] == 100-10*orders })
		w.Faults = sim.Faults{
			For: 10 * time.Second, Lasting: 2 * time.Second,
			PartitionEvery: 2 * time.Second, CrashEvery: 5 * time.Second, PauseEvery: 5 * time.Second,
		}
	}
}

// TestTheBankIsSound runs 500 worlds.
func TestTheBankIsSound(t *testing.T) {
	seeds := 500
	if testing.Short() {
		seeds = 50
	}
	sim.Explore(t, seeds, world(func(b *bank) func(context.Context, *stream.Conn) error { return b.serve }))
}

// TestAForgetfulBankIsDetected uses a bank that forgets the orders it has carried out. An
// ordinary test would call sim.Explore, and fail with this story.
func TestAForgetfulBankIsDetected(t *testing.T) {
	forgetful := world(func(b *bank) func(context.Context, *stream.Conn) error {
		return func(ctx context.Context, c *stream.Conn) error {
			clear(b.done)
			return b.serve(ctx, c)
		}
	})
	f := sim.Search{Runs: 500}.Find(t.Context(), forgetful)
	if f == nil {
		t.Fatal("nothing was found")
	}
	t.Logf("after %d seeds:\n%s", f.Runs, f.Story(""))
	if parts := f.Parts(); len(parts) > 4 {
		t.Errorf("the shrunk failure has the parts %q; want at most four", parts)
	}
	again := sim.Search{First: f.World.Seed(), Runs: 1, Only: f.Parts()}.Find(t.Context(), forgetful)
	if again == nil || again.Story("") != f.Story("") {
		t.Errorf("the second run differs: %+v", again)
	}
}
