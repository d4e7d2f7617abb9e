package behaviour_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// memory is the memory in use after a garbage collection.
type memory struct{ heap, stacks, goroutines int64 }

func inUse() memory {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept through the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{int64(m.HeapAlloc), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}

// alone runs the test again in a process of its own, and reports whether this is that
// process. Other tests change the result: the runtime gives new goroutines stacks as large
// as those it has seen.
func alone(t *testing.T) bool {
	const variable = "SPINDLE_TEST_ALONE"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), variable+"="+t.Name(), "GODEBUG=adaptivestackstart=0,"+os.Getenv("GODEBUG"))
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestMillionTasksInWaves starts tasks in waves of a thousand and joins each
// wave, in a nursery that stays open: memory does not grow with the number of tasks that
// have ended. Other ways to start tasks are tried with fewer.
func TestMillionTasksInWaves(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many tasks")
	}
	if !alone(t) {
		return
	}
	const perWave = 1000
	const (
		mostHeap  = 64 << 10 // more than at the beginning
		mostStack = 8 << 10  // of a goroutine: they grow once or twice, in their own time
	)
	for _, way := range []struct {
		name  string
		waves int
		wave  func(ctx context.Context, n *spindle.Nursery, ended *int) error
	}{
		{"Go", waves, func(ctx context.Context, n *spindle.Nursery, ended *int) error {
			var joined spindle.Lot
			left := perWave
			for range perWave {
				n.Go(func(ctx context.Context) error {
					err := spindle.Yield(ctx)
					*ended++
					if left--; left == 0 {
						joined.Wake(1)
					}
					return err
				})
			}
			return joined.Wait(ctx, "wave")
		}},
		{"Nursery", waves / 5, func(ctx context.Context, _ *spindle.Nursery, ended *int) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range perWave {
					n.Go(func(ctx context.Context) error { *ended++; return spindle.Yield(ctx) })
				}
				return nil
			})
		}},
		{"Spawn", waves / 5, func(ctx context.Context, n *spindle.Nursery, ended *int) error {
			var futures [perWave]*spindle.Future[int]
			for i := range futures {
				futures[i] = spindle.Spawn(n, func(ctx context.Context) (int, error) { *ended++; return i, spindle.Yield(ctx) })
			}
			for _, f := range futures {
				if _, err := f.Await(ctx); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			ended, settled := 0, way.waves/10
			o := spindle.Options{Loop: loop.Options{Watchdog: -1}} // the collections hold the loop up, and what it would tell needs memory
			err := o.Run(t.Context(), func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					var before memory
					for wave := range way.waves {
						if wave == settled {
							before = inUse()
						}
						if err := way.wave(ctx, n, &ended); err != nil {
							return err
						}
					}
					if now := inUse(); now.heap > before.heap+mostHeap || now.goroutines > before.goroutines || now.stacks > now.goroutines*mostStack {
						t.Errorf("after %d tasks %+v, after %d tasks %+v", settled*perWave, before, ended, now)
					}
					return nil
				})
			})
			if err != nil || ended != way.waves*perWave {
				t.Fatalf("%d ended, %v", ended, err)
			}
		})
	}
}
