package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

func vanishingTask(ctx context.Context) error {
	spindle.Yield(ctx)
	runtime.Goexit()
	return nil
}

func TestFailNowUnderRunEndsTheTest(t *testing.T) {
	if os.Getenv("CHILD") != "" {
		t.Run("a", func(t *testing.T) {
			spindle.Run(t.Context(), func(ctx context.Context) error { t.Fatal("fatal"); return nil })
		})
		t.Run("b", func(t *testing.T) { fmt.Println("the next test ran") })
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestFailNowUnderRunEndsTheTest$")
	cmd.Env = append(os.Environ(), "CHILD=1")
	if out, _ := cmd.CombinedOutput(); !bytes.Contains(out, []byte("the next test ran")) {
		t.Errorf("%s", out)
	}
}

func TestGoexitOfATask(t *testing.T) {
	for name, run := range map[string]func(context.Context, func(context.Context) error) error{"real": spindle.Run, "simulated": sim.Run} {
		t.Run(name, func(t *testing.T) {
			deferred := false
			var nursery *spindle.PanicError
			exited := exits(func() {
				run(t.Context(), func(ctx context.Context) error {
					nursery = panicOf(func() error {
						return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
							n.Go(vanishingTask)
							return forever(ctx)
						})
					})
					spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
						defer func() { deferred = true }()
						return vanishingTask(ctx)
					})
					return forever(ctx)
				})
			})
			if nursery == nil || nursery.Value != loop.ErrGoexit || !bytes.Contains(nursery.Stack, []byte("vanishingTask")) {
				t.Errorf("the nursery failed with %v", nursery)
			}
			if !exited || !deferred {
				t.Errorf("Run called Goexit: %v, deferred calls ran: %v", exited, deferred)
			}
		})
	}
}

func TestGoexitIsLoggedWithOtherFailures(t *testing.T) {
	failing := func(ctx context.Context) error { forever(ctx); return errCause }
	for _, c := range []struct {
		name   string
		others []func(context.Context) error
		want   int
	}{{"alone", nil, 0}, {"with a failure", []func(context.Context) error{failing}, 1}} {
		var log bytes.Buffer
		o := spindle.Options{ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
		inRoot := func(ctx context.Context, tasks ...func(context.Context) error) error {
			for _, task := range tasks {
				spindle.RootNursery(ctx).Go(task)
			}
			return forever(ctx)
		}
		inNursery := func(ctx context.Context, tasks ...func(context.Context) error) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for _, task := range tasks {
					n.Go(task)
				}
				return forever(ctx)
			})
		}
		for where, start := range map[string]func(context.Context, ...func(context.Context) error) error{"root": inRoot, "nursery": inNursery} {
			log.Reset()
			exited := exits(func() {
				o.Run(t.Context(), func(ctx context.Context) error {
					return start(ctx, append(c.others, vanishingTask)...)
				})
			})
			if got := strings.Count(log.String(), "the run failed"); !exited || got != c.want || got != strings.Count(log.String(), errCause.Error()) {
				t.Errorf("%s, %s: exited %v, logged %q", where, c.name, exited, log.String())
			}
		}
	}
}

// TestGoexitHidesNoLostWork: work that was lost is logged, because Run does not return.
func TestGoexitHidesNoLostWork(t *testing.T) {
	var log bytes.Buffer
	o := spindle.Options{ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
	exits(func() {
		o.Run(t.Context(), func(ctx context.Context) error {
			l := spindle.LoopOf(ctx)
			defer l.CallSoon(func() { l.CallSoon(func() {}) })
			runtime.Goexit()
			return nil
		})
	})
	if !strings.Contains(log.String(), "goexit_test.go") {
		t.Errorf("logged %q", log.String())
	}
}

func TestGoexitInABodyEndsItsChildren(t *testing.T) {
	var child error
	exits(func() {
		sim.Run(t.Context(), func(ctx context.Context) error {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(ctx context.Context) error { child = spindle.Sleep(ctx, time.Hour); return child })
					spindle.Yield(ctx)
					runtime.Goexit()
					return nil
				})
			})
			return spindle.Sleep(ctx, 2*time.Hour)
		})
	})
	if !errors.Is(child, context.Canceled) {
		t.Fatalf("the child ended with %v", child)
	}
}
