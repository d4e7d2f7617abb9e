package inspect

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// withTasks runs fn in a task of a loop that has n other tasks, which wait.
func withTasks(t *testing.T, n int, fn func(*source)) {
	t.Helper()
	err := spindle.Options{Loop: loop.Options{Watchdog: -1}}.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, nursery *spindle.Nursery) error {
			begun := 0
			for range n {
				nursery.Go(func(ctx context.Context) error {
					begun++
					return spindle.Sleep(ctx, time.Hour)
				})
			}
			for begun < n {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			l := spindle.LoopOf(ctx)
			fn(&source{l: l})
			nursery.Scope().Cancel(nil)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var at unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at)
	return time.Duration(at.Nano())
}

// eachSlice takes a snapshot of n tasks, with a call of around for each slice.
func eachSlice(t *testing.T, s *source, n int, around func(slice func())) {
	t.Helper()
	snap := &taskSnapshot{}
	var walk probe.TaskWalk
	for more := true; more; {
		if snap.isFull() {
			snap.reserve()
		}
		around(func() { more = snap.slice(s, &walk) })
	}
	if snap.n != n {
		t.Errorf("the snapshot has %d tasks, want %d", snap.n, n)
	}
}

// longSlice is for how long a snapshot may hold the loop at a time.
const longSlice = 2 * time.Millisecond

// A snapshot of 100,000 tasks holds the loop for at most 2 ms at a time. The time is that of
// the thread, so that other programs do not matter. Collections run all the time, so that a
// slice that allocates would have to help with one. A machine may still stop a thread during
// its time, so that one slice in twenty may take longer.
func TestSliceHoldsTheLoopBriefly(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many tasks")
	}
	const n = ManyTasks
	withTasks(t, n, func(s *source) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		}()
		var held []time.Duration
		eachSlice(t, s, n+1, func(slice func()) {
			runtime.LockOSThread() // otherwise the thread runs other goroutines meanwhile
			defer runtime.UnlockOSThread()
			began := threadTime()
			slice()
			held = append(held, threadTime()-began)
		})
		close(stop)
		<-stopped
		slices.Sort(held)
		t.Logf("%d slices: half of them take up to %v, the longest take %v", len(held), held[len(held)/2], held[max(len(held)-5, 0):])
		if long := held[len(held)*95/100-1]; long > longSlice {
			t.Errorf("one slice in twenty takes %v or more", long)
		}
	})
}

// The rows of a snapshot are allocated outside the loop: during a collection each allocation
// has to help the collector.
func TestSlicesAllocateNoRows(t *testing.T) {
	const n = 20_000
	withTasks(t, n, func(s *source) {
		var bytes uint64
		eachSlice(t, s, n+1, func(slice func()) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			slice()
			runtime.ReadMemStats(&after)
			bytes += after.TotalAlloc - before.TotalAlloc
		})
		t.Logf("slices allocate %d bytes for %d tasks", bytes, n)
		if bytes > 16*n {
			t.Errorf("slices allocate %d bytes for %d tasks", bytes, n)
		}
	})
}

// A slice ends by the clock, which a walk asks for after every few tasks, however many tasks
// there are and however their scopes are nested.
func TestWalkReadsTheClockOften(t *testing.T) {
	const often = 16
	withTasks(t, 1000, func(s *source) {
		snap := &taskSnapshot{}
		walk := snap.begin(s)
		tasks, since := 0, 0
		for more := true; more; {
			more = walk.Next(func() bool { since = 0; return tasks%5 == 0 }, func(*probe.Task) {
				tasks++
				if since++; since > often {
					t.Fatalf("%d tasks were visited without a look at the clock", since)
				}
			})
			since = 0
		}
		if tasks != 1001 {
			t.Errorf("%d tasks were visited", tasks)
		}
	})
}
