package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// sleeper is a program with a task that sleeps, in steps of a second.
func sleeper(ctx context.Context) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.GoWith(spindle.TaskOptions{Name: "sleeper"}, func(ctx context.Context) error {
			for range 10 {
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
			return nil
		})
		return nil
	})
}

func taskNamed(a *inspect.SnapshotAnswer, name string) *inspect.Task {
	for i := range a.Tasks {
		if a.Tasks[i].Name == name {
			return &a.Tasks[i]
		}
	}
	return nil
}

// Inspect takes snapshots at virtual times, also between the times at which something happens.
func TestInspectAtAVirtualTime(t *testing.T) {
	w := sim.NewWorld(1)
	w.Host("a").Go(sleeper)
	w.Host("b").Serve(func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":80")
		if err != nil {
			return err
		}
		_, err = ln.Accept()
		return err
	})
	early, late, never := w.Inspect(2500*time.Millisecond), w.Inspect(7*time.Second), w.Inspect(time.Hour)
	var inside *inspect.SnapshotAnswer
	w.After(4*time.Second, func() { inside = w.Inspect(w.Now()) })
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a      *inspect.SnapshotAnswer
		at     time.Duration
		waited time.Duration
	}{{early, 2500 * time.Millisecond, 500 * time.Millisecond}, {late, 7 * time.Second, 0}, {inside, 4 * time.Second, time.Second}} {
		if got := c.a.TakenAt.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); got != c.at || c.a.Version != inspectapi.Version {
			t.Errorf("a snapshot for %v is of %v, version %d", c.at, got, c.a.Version)
		}
		if len(c.a.Loops) != 2 || c.a.Loops[0].Name != "a" || c.a.Loops[1].Name != "b" || c.a.Loops[0].State != "waiting" || c.a.Loops[0].Backend != "sim" {
			t.Errorf("at %v the loops are %+v", c.at, c.a.Loops)
		}
		if task := taskNamed(c.a, "sleeper"); task == nil || task.WaitsNS != int64(c.waited) || !strings.HasPrefix(task.Started, "inspect_test.go:") || task.Time == nil || time.Duration(task.Time.AgeNS) != c.at {
			t.Errorf("at %v the task is %+v", c.at, task)
		}
		if len(c.a.Sockets) != 1 || c.a.Sockets[0].Kind != "listener" || c.a.Sockets[0].Loop != c.a.Loops[1].ID {
			t.Errorf("at %v the sockets are %+v", c.at, c.a.Sockets)
		}
	}
	if never.Version != 0 {
		t.Errorf("there is a snapshot of a time after the end: %v", never.TakenAt)
	}
	defer func() {
		if message, _ := recover().(string); !strings.Contains(message, "that time has passed") {
			t.Errorf("Inspect of a time in the past panics with %q", message)
		}
	}()
	w.Inspect(time.Second)
}

// record runs a sample with recording and returns the recording as JSON, and the world.
func record(t *testing.T, name string, seed uint64, every time.Duration) (string, *sim.World) {
	t.Helper()
	p, _ := simsamples.Find(name)
	w := sim.NewWorld(seed)
	p.World(p.Faults)(w)
	w.InspectEvery = every
	_ = w.Run() // some samples have a bug
	text, err := json.Marshal(w.Recording())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), w
}

// The same seed gives the same snapshots, however memory is reused.
func TestInspectSameSeedSameSnapshots(t *testing.T) {
	for _, name := range []string{"echo", "counter", "lock"} {
		for seed := range uint64(short.Of(2)) {
			once, w := record(t, name, seed, 50*time.Millisecond)
			if n := len(w.Recording().Snapshots); n < 3 {
				t.Errorf("%s, seed %d: %d snapshots", name, seed, n)
			}
			runtime.GC()
			again, _ := record(t, name, seed, 50*time.Millisecond)
			if once != again {
				at := 0
				for at < min(len(once), len(again)) && once[at] == again[at] {
					at++
				}
				t.Errorf("%s, seed %d: snapshots differ at byte %d: …%.300s…", name, seed, at, once[max(0, at-100):])
			}
		}
	}
}

// Snapshots do not influence the run: its hash covers all that happens, and its order.
func TestInspectDoesNotInfluenceTheRun(t *testing.T) {
	every := 20 * time.Millisecond
	if testing.Short() {
		every = 100 * time.Millisecond
	}
	for _, name := range []string{"echo", "counter", "lock"} {
		for seed := range uint64(short.Of(2)) {
			_, with := record(t, name, seed, every)
			_, without := record(t, name, seed, 0)
			if with.Hash() != without.Hash() || with.Steps() != without.Steps() || with.Now() != without.Now() {
				t.Errorf("%s, seed %d: with snapshots hash %x, %d steps, %v; without %x, %d steps, %v", name, seed,
					with.Hash(), with.Steps(), with.Now(), without.Hash(), without.Steps(), without.Now())
			}
			if without.Recording() != nil {
				t.Error("a world that is not recorded has a recording")
			}
		}
	}
}

// The recording of a run that ends in a deadlock ends with the cycle.
func TestInspectShowsTheDeadlockThatEndsARun(t *testing.T) {
	w := sim.NewWorld(1)
	w.InspectEvery = time.Second
	w.Host("bank").Go(func(ctx context.Context) error {
		var a, b cosync.Mutex
		transfer := func(from, to *cosync.Mutex) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := from.Lock(ctx); err != nil {
					return err
				}
				defer from.Unlock()
				if err := spindle.Sleep(ctx, 90*time.Second); err != nil {
					return err
				}
				if err := to.Lock(ctx); err != nil {
					return err
				}
				defer to.Unlock()
				return nil
			}
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(transfer(&a, &b))
			n.Go(transfer(&b, &a))
			return nil
		})
	})
	if err := w.Run(); !errors.Is(err, sim.ErrDeadlock) {
		t.Fatalf("the run ends with %v", err)
	}
	all := w.Recording().Snapshots
	first, last := all[0], all[len(all)-1]
	if len(all) < 90 || len(first.Waits.Cycles) != 0 || len(last.Waits.Cycles) != 1 || len(last.Waits.Cycles[0]) != 4 {
		t.Errorf("%d snapshots; cycles at first %v and at last %v", len(all), first.Waits.Cycles, last.Waits.Cycles)
	}
	for i := 1; i < len(all); i++ {
		if !all[i].TakenAt.After(all[i-1].TakenAt) {
			t.Fatalf("snapshot %d is of %v, the one before of %v", i, all[i].TakenAt, all[i-1].TakenAt)
		}
	}
}

// A recording stays small however long the run is.
func TestInspectEveryIsBounded(t *testing.T) {
	lasts := 24 * time.Hour
	if testing.Short() {
		lasts = 3 * time.Hour
	}
	w := sim.NewWorld(1)
	w.InspectEvery = time.Second
	w.Host("a").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, lasts) })
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	all := w.Recording().Snapshots
	if n := len(all); n < 1000 || n > 2400 {
		t.Errorf("%v at intervals of a second have %d snapshots", lasts, n)
	}
	if took := all[len(all)-1].TakenAt.Sub(all[0].TakenAt); took != lasts {
		t.Errorf("they are of %v", took)
	}
}

// Inspect works in the bubble of a test, where contexts of the standard library follow
// virtual time.
func TestInspectInABubble(t *testing.T) {
	sim.Explore(t, 5, func(w *sim.World) {
		var at *inspect.SnapshotAnswer
		w.InspectEvery = 100 * time.Millisecond
		w.Host("a").Go(func(ctx context.Context) error {
			at = w.Inspect(1500 * time.Millisecond)
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if err := sleeper(ctx); !errors.Is(err, context.DeadlineExceeded) {
				return errors.New("the timeout did not end the wait")
			}
			if task := taskNamed(at, "sleeper"); task == nil || task.WaitsNS != int64(500*time.Millisecond) {
				return errors.New("the snapshot does not show the task")
			}
			if n := len(w.Recording().Snapshots); n != 20 {
				return errors.New("there are not 20 snapshots")
			}
			return nil
		})
	})
}

// A recording has the messages of the run.
func TestRecordingHasTheMessages(t *testing.T) {
	w := sim.NewWorld(3)
	w.InspectEvery = time.Second
	host := w.Host("a")
	host.Go(func(ctx context.Context) error {
		host.Note("half way")
		return spindle.Sleep(ctx, 2*time.Second)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	recorded, trace := w.Recording().Messages, w.Trace()
	if len(recorded) != len(trace) || len(trace) == 0 {
		t.Fatalf("the recording has %d messages, the trace %d", len(recorded), len(trace))
	}
	for i, m := range recorded {
		if e := trace[i]; m.Number != i+1 || m.Kind != e.Kind || m.From != e.From || m.AtNS != int64(e.At) || m.Note != e.Note {
			t.Errorf("message %d is %+v, the event %+v", i, m, e)
		}
	}
}
