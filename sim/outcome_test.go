package sim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// outcome is a test that does not pass, and texts of its output.
type outcome struct {
	name  string
	play  func(t *testing.T, ctx context.Context, n *spindle.Nursery) error
	wants []string
}

// explode panics in a task.
func explode(ctx context.Context) error {
	if err := spindle.Yield(ctx); err != nil {
		return err
	}
	panic("boom")
}

// vanish leaves a task by Goexit.
func vanish(ctx context.Context) error {
	defer fmt.Println("deferred in the task")
	if err := spindle.Yield(ctx); err != nil {
		return err
	}
	runtime.Goexit()
	return nil
}

var outcomes = []outcome{
	{"Error", func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		return errors.New("something went wrong")
	}, []string{"--- FAIL", "something went wrong"}},
	{"FailNow", func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		defer fmt.Println("deferred in the task")
		t.Fatal("fatal")
		return nil
	}, []string{"--- FAIL", "outcome_test.go:", ": fatal", "deferred in the task"}},
	{"FailNowInAChild", func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, time.Hour); err == nil {
				t.Error("the sibling was not cancelled")
			}
			fmt.Println("the sibling cleans up")
			return spindle.Grace(ctx, time.Second, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
		})
		n.Go(func(ctx context.Context) error {
			defer fmt.Println("deferred in the task")
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			t.Fatal("fatal")
			return nil
		})
		return nil
	}, []string{"--- FAIL", ": fatal", "deferred in the task", "the sibling cleans up"}},
	{"SkipNow", func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		t.Skip("not today")
		return nil
	}, []string{"--- SKIP", "not today"}},
	{"Goexit", func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		n.Go(vanish)
		return nil
	}, []string{"--- FAIL", "runtime.Goexit called at outcome_test.go:", "sim_test.vanish", "deferred in the task"}},
	{"Panic", func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		n.Go(explode)
		return nil
	}, []string{"--- FAIL", "panic at outcome_test.go:", ": boom", "sim_test.explode"}},
	{"Deadlock", func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		var gate spindle.Lot
		n.GoWith(spindle.TaskOptions{Name: "estragon"}, func(ctx context.Context) error { return gate.Wait(ctx, "godot") })
		return nil
	}, []string{"--- FAIL", "sim: deadlock", "main (", "waiting for nursery", "  estragon (outcome_test.go:", "waiting for godot"}},
}

const childSays = "SPINDLE_TEST_CHILD"

// TestOutcomes runs each test in a child process: it does not pass, it ends where it
// should, no goroutines of the run are left, and the next test runs.
func TestOutcomes(t *testing.T) {
	for _, o := range outcomes {
		t.Run(o.name, func(t *testing.T) {
			if os.Getenv(childSays) != "" {
				t.Cleanup(func() { fmt.Println("goroutines left:", goroutinesLeft()) })
				sim.Test(t, func(ctx context.Context) error {
					return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { return o.play(t, ctx, n) })
				})
				fmt.Println("BEYOND THE END")
				return
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestOutcomes$/^"+o.name+"$|^TestOffloadedWorkRuns$")
			cmd.Env = append(os.Environ(), childSays+"=1")
			text, _ := cmd.CombinedOutput()
			out := string(text)
			wants := append(o.wants, "goroutines left: 0", "--- PASS: TestOffloadedWorkRuns")
			for _, want := range wants {
				if !strings.Contains(out, want) {
					t.Errorf("the output does not have %q", want)
				}
			}
			if strings.Contains(out, "BEYOND") {
				t.Error("the test went on")
			}
			if strings.Contains(out, "Goexit") && o.name != "Goexit" {
				t.Error("the output mentions Goexit")
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// goroutinesLeft counts the goroutines of tasks. It waits a little for those that are about
// to exit.
func goroutinesLeft() (left int) {
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	buf := make([]byte, 1<<20)
	for {
		left = bytes.Count(buf[:runtime.Stack(buf, true)], []byte("spindle.(*coro)"))
		select {
		case <-deadline.C:
			return left
		default:
			if left == 0 {
				return 0
			}
			runtime.Gosched()
		}
	}
}

// TestDeadlockReport checks the report of a deadlock, except for line numbers.
func TestDeadlockReport(t *testing.T) {
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var gate spindle.Lot
			n.GoWith(spindle.TaskOptions{Name: "vladimir"}, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.GoWith(spindle.TaskOptions{Name: "boy"}, func(ctx context.Context) error { return gate.Wait(ctx, "word") })
					return nil
				})
			})
			if err := spindle.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error { return gate.Wait(ctx, "godot") })
		})
	})
	if !errors.Is(err, sim.ErrDeadlock) {
		t.Fatal(err)
	}
	want := []struct {
		name, waitsFor string
		depth          int
		since          time.Duration
	}{{"main", "godot", 0, 0}, {"vladimir", "nursery", 1, time.Minute}, {"boy", "word", 2, time.Minute}}
	tree := regexp.MustCompile(`(?m)^( *)(\w+) \(.*\): waiting for (\w+) \((\w+)\)`).FindAllStringSubmatch(err.Error(), -1)
	if len(tree) != len(want) {
		t.Fatalf("%d tasks in %v", len(tree), err)
	}
	for i, w := range want {
		if got := tree[i]; len(got[1]) != 2*w.depth || got[2] != w.name || got[3] != w.waitsFor || got[4] != w.since.String() {
			t.Errorf("got %q, want %+v", got, w)
		}
	}
}
