package sim_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
)

// village is a world with a server, clients that retry until they have their answers, and
// a network with faults. It ends when every client has its answers.
func village(seed uint64) *sim.World {
	w := sim.NewWorld(seed)
	server := w.Host("server")
	server.Serve(serveEcho(":7"))
	w.Latency = sim.LongTail(2 * time.Millisecond)
	w.WorkTime = sim.Uniform(0, time.Millisecond)
	for i := range 4 {
		client := w.Host(fmt.Sprint("client", i))
		w.Link(server, client).Set(sim.LinkOptions{Dribble: 0.3, Loss: 0.02})
		client.Go(func(ctx context.Context) error {
			for tries := 0; ; tries++ {
				err := spindle.FailAfter(ctx, 2*time.Second, func(ctx context.Context) error {
					return ask(ctx, "server:7", "hello", strings.Repeat(client.Name(), 3000), "bye")
				})
				if err == nil || tries > 100 {
					return err
				}
				client.Note("%v", err)
				if err := spindle.Sleep(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
		})
	}
	w.After(3*time.Millisecond, func() { w.Partition(server, w.Hosts()[2]) })
	w.After(5*time.Millisecond, server.Crash)
	w.After(700*time.Millisecond, server.Restart)
	w.After(time.Second, w.Heal)
	w.After(2*time.Millisecond, w.Hosts()[3].Pause)
	w.After(900*time.Millisecond, w.Hosts()[3].Resume)
	return w
}

// TestTheSameSeedGivesTheSameRun runs each world twice and compares hashes, traces and
// results. The second run has another number of threads.
func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	t.Run("village", func(t *testing.T) { runTwice(t, fewer(1000), true, village) })
	for _, p := range simsamples.Programs {
		t.Run(p.Name, func(t *testing.T) {
			runTwice(t, fewer(50), p.Bug == "", func(seed uint64) *sim.World {
				w := sim.NewWorld(seed)
				p.World(p.Faults)(w)
				return w
			})
		})
	}
}

// runTwice runs a world with each seed twice. If it is sound, no run may fail.
func runTwice(t *testing.T, seeds int, sound bool, world func(seed uint64) *sim.World) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	different, full := map[uint64]bool{}, 0
	for seed := range uint64(seeds) {
		var hashes [2]uint64
		var traces, outcomes [2]string
		for i := range 2 {
			runtime.GOMAXPROCS(1 + i)
			w := world(seed)
			outcomes[i] = fmt.Sprint(w.Run())
			hashes[i], traces[i] = w.Hash(), w.Trace().String()
		}
		if hashes[0] != hashes[1] || traces[0] != traces[1] || outcomes[0] != outcomes[1] {
			t.Fatalf("seed %d: two runs\n%s\n%s\n%s\n%s", seed, outcomes[0], traces[0], outcomes[1], traces[1])
		}
		if sound && outcomes[0] != "<nil>" {
			t.Fatalf("seed %d: %s\n%s", seed, outcomes[0], traces[0])
		}
		if sim.Share(seed) == 1 { // smaller worlds may be alike
			full++
			different[hashes[0]] = true
		}
	}
	if len(different) != full {
		t.Errorf("%d different runs of %d seeds", len(different), full)
	}
}

// TestEntropyComesFromTheSeed: the random numbers of programs follow the seed.
func TestEntropyComesFromTheSeed(t *testing.T) {
	draw := func(seed uint64) (a, b uint64) {
		w := sim.NewWorld(seed)
		w.Host("a").Go(func(ctx context.Context) error { a = spindle.LoopOf(ctx).Internal().Kernel().Uint64(); return nil })
		w.Host("b").Go(func(ctx context.Context) error { b = spindle.LoopOf(ctx).Internal().Kernel().Uint64(); return nil })
		if err := w.Run(); err != nil {
			t.Error(err)
		}
		return a, b
	}
	a1, b1 := draw(1)
	a2, b2 := draw(1)
	a3, _ := draw(2)
	if a1 != a2 || b1 != b2 || a1 == b1 || a1 == a3 {
		t.Error(errors.New("the draws do not follow from the seed"), a1, a2, a3, b1, b2)
	}
}
