package spindle_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// explodes and explodesDeeper are the code to blame.
//
//go:noinline
func explodes() { explodesDeeper() }

//go:noinline
func explodesDeeper() { panic("boom in a task") }

// uncaught are programs that end by a panic which nothing recovers.
var uncaught = map[string]func(){
	"main": func() {
		spindle.Run(context.Background(), func(ctx context.Context) error { explodes(); return nil })
	},
	"child": func() {
		spindle.Run(context.Background(), func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error { explodes(); return nil })
				return forever(ctx)
			})
		})
	},
	"spawned": func() {
		spindle.Run(context.Background(), func(ctx context.Context) error {
			spindle.Spawn(spindle.RootNursery(ctx), func(ctx context.Context) (int, error) { explodes(); return 0, nil })
			return forever(ctx)
		})
	},
	"blocking": func() {
		spindle.Run(context.Background(), func(ctx context.Context) error {
			_, err := spindle.Blocking(ctx, func() (int, error) { explodes(); return 0, nil })
			return err
		})
	},
	"from a goroutine": func() {
		spindle.Run(context.Background(), func(ctx context.Context) error {
			go spindle.FromGoroutine(context.Background(), spindle.LoopOf(ctx), func() (int, error) { explodes(); return 0, nil })
			return forever(ctx)
		})
	},
	"callback": func() {
		l, _ := loop.New(loop.Options{})
		l.CallSoon(explodes)
		var p *loop.PanicError
		if errors.As(l.Run(context.Background()), &p) {
			p.Repanic()
		}
	},
}

const uncaughtProgram = "SPINDLE_TEST_UNCAUGHT"

// TestUncaughtPanicsPrintTheirStack: what Go prints at the end of the program has the
// value, and the functions that led to the panic.
func TestUncaughtPanicsPrintTheirStack(t *testing.T) {
	if program := uncaught[os.Getenv(uncaughtProgram)]; program != nil {
		program()
		return
	}
	for name := range uncaught {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestUncaughtPanicsPrintTheirStack$")
			cmd.Env = append(os.Environ(), uncaughtProgram+"="+name)
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("it ended with %v", err)
			}
			for _, want := range []string{"panic: ", "boom in a task", ".explodesDeeper(", ".explodes(", "panic_test.go:"} {
				if !strings.Contains(string(out), want) {
					t.Fatalf("no %q in\n%s", want, out)
				}
			}
			if n := strings.Count(string(out), ".explodesDeeper("); n != 1 {
				t.Errorf("the stack is printed %d times:\n%s", n, out)
			}
		})
	}
}

// TestRecoveredPanicOfRun: it is a *PanicError with the value, and what else failed.
func TestRecoveredPanicOfRun(t *testing.T) {
	boom := errors.New("boom")
	p := panicOf(func() error {
		return spindle.Run(t.Context(), func(ctx context.Context) error {
			l := spindle.LoopOf(ctx)
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				defer l.CallSoon(leftBehind)
				return errors.Join(forever(ctx), boom)
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			explodes()
			return nil
		})
	})
	if p == nil || p.Value != "boom in a task" || !errors.Is(p.Also, boom) {
		t.Fatalf("%v", p)
	}
	if lost := (*loop.LostError)(nil); !errors.As(p.Also, &lost) {
		t.Errorf("besides: %v", p.Also)
	}
}

// TestCallbackPanicsAreErrorsOfRun, whose text has the stack.
func TestCallbackPanicsAreErrorsOfRun(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		spindle.LoopOf(ctx).CallSoon(explodes)
		return forever(ctx)
	})
	var p *spindle.PanicError
	if !errors.As(err, &p) || p.Value != "boom in a task" || !strings.Contains(err.Error(), ".explodesDeeper(") {
		t.Errorf("%v", err)
	}
}
