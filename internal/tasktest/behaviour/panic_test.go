package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// explodes and explodesDeeper are the code to blame.
//
//go:noinline
func explodes() { explodesDeeper() }

//go:noinline
func explodesDeeper() { panic("boom in a task") }

// uncaught are programs that end by a panic that is not recovered.
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
			go spindle.CallOn(context.Background(), spindle.LoopOf(ctx), func(context.Context) (int, error) { explodes(); return 0, nil })
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

// TestUncaughtPanicsPrintTheirStack: the program prints the value and the functions
// that led to the panic.
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

// TestRecoveredPanicOfRun is a *PanicError with the value and the other failures.
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
	if !errors.Is(p.Also, loop.ErrLost) {
		t.Errorf("besides: %v", p.Also)
	}
}

// TestCallbackPanicsAreErrorsOfRun, and their text has the stack.
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

// TestRunEndsInOrderWhenATaskDoesNot: a panic or a Goexit in any place cancels the other
// tasks, which clean up. Deferred calls run, Run panics with the stack of the task or calls
// Goexit, and the loop can be used again.
func TestRunEndsInOrderWhenATaskDoesNot(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name  string
		task  func(context.Context) error
		value any
		frame string
	}{
		{"panic", explodingTask, "boom", "explodingTask"},
		{"Goexit", vanishingTask, nil, ""},
	} {
		for _, place := range []struct {
			name string
			run  func(ctx context.Context, task func(context.Context) error) error
		}{
			{"in main", func(ctx context.Context, task func(context.Context) error) error { return task(ctx) }},
			{"in the background", func(ctx context.Context, task func(context.Context) error) error {
				spindle.RootNursery(ctx).Go(task)
				return forever(ctx)
			}},
			{"in a child", func(ctx context.Context, task func(context.Context) error) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(task)
					return forever(ctx)
				})
			}},
			{"in a scope", func(ctx context.Context, task func(context.Context) error) error {
				return spindle.Shield(ctx, task)
			}},
			{"in a spawned task", func(ctx context.Context, task func(context.Context) error) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					f := spindle.Spawn(n, func(ctx context.Context) (int, error) { return 0, task(ctx) })
					_, err := f.Await(ctx)
					return err
				})
			}},
			{"in a gathered one", func(ctx context.Context, task func(context.Context) error) error {
				_, err := spindle.Gather(ctx, after(time.Hour, 0, nil), func(ctx context.Context) (int, error) { return 0, task(ctx) })
				return err
			}},
		} {
			t.Run(kind.name+" "+place.name, func(t *testing.T) {
				cleaned, deferred := false, false
				run := func() error {
					return spindle.Options{On: l}.Run(t.Context(), func(ctx context.Context) error {
						spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
							err := forever(ctx)
							return errors.Join(err, spindle.Grace(ctx, time.Minute, func(ctx context.Context) error {
								err := spindle.Sleep(ctx, time.Millisecond)
								cleaned = err == nil
								return err
							}))
						})
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
						return place.run(ctx, func(ctx context.Context) error {
							defer func() { deferred = true }()
							return kind.task(ctx)
						})
					})
				}
				var p *spindle.PanicError
				if exited := exits(func() { p = panicOf(run) }); exited != (kind.value == nil) {
					t.Errorf("Run has called Goexit: %v", exited)
				} else if !exited && (p == nil || p.Value != kind.value || !bytes.Contains(p.Stack, []byte(kind.frame))) {
					t.Errorf("Run has panicked with %v", p)
				}
				if !cleaned || !deferred {
					t.Errorf("the other cleaned up: %v, deferred calls ran: %v", cleaned, deferred)
				}
				if s := l.Stats(); s.Timers != 0 || s.Ready != 0 || s.FDs != 0 {
					t.Errorf("left in the loop: %+v", s)
				}
				err := spindle.Options{On: l}.Run(t.Context(), func(ctx context.Context) error { return spindle.Sleep(ctx, time.Microsecond) })
				if err != nil {
					t.Errorf("the next run: %v", err)
				}
			})
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestPanicIsCaughtWhereANurseryIs: the task that opened it may recover and continue.
func TestPanicIsCaughtWhereANurseryIs(t *testing.T) {
	err := nurse(t, func(ctx context.Context, _ *spindle.Nursery) error {
		p := panicOf(func() error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(explodingTask)
				return forever(ctx)
			})
		})
		if p == nil || p.Value != "boom" {
			t.Errorf("caught %v", p)
		}
		return spindle.Sleep(ctx, time.Hour)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPanicReachesTheParent(t *testing.T) {
	sibling := errors.New("not cancelled")
	defer func() {
		p, ok := recover().(*spindle.PanicError)
		if !ok || p.Value != "boom" || !bytes.Contains(p.Stack, []byte("explodingTask")) {
			t.Fatalf("panic %v", p)
		}
		if !errors.Is(sibling, context.Canceled) {
			t.Errorf("sibling: %v", sibling)
		}
	}()
	nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error { sibling = forever(ctx); return sibling })
		n.Go(explodingTask)
		return nil
	})
	t.Fatal("Run returned")
}

func explodingTask(ctx context.Context) error {
	spindle.Yield(ctx)
	panic("boom")
}

func TestNoFailureIsLostBesideAPanic(t *testing.T) {
	p := panicOf(func() error {
		return nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(context.Context) error { panic("one") })
			n.Go(func(context.Context) error { panic("two") })
			n.Go(func(context.Context) error { return errOther })
			return nil
		})
	})
	if text := p.Error(); !strings.Contains(text, "two") || !strings.Contains(text, errOther.Error()) {
		t.Errorf("only %q", text)
	}
}

// TestBodyPanicsWhileChildrenFail: WithNursery panics when the children have ended.
func TestBodyPanicsWhileChildrenFail(t *testing.T) {
	ended := 0
	defer func() {
		if p, ok := recover().(*spindle.PanicError); !ok || p.Value != "boom" || ended != 2 {
			t.Errorf("panic %v, %d ended", p, ended)
		}
	}()
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		for range 2 {
			n.Go(func(ctx context.Context) error {
				forever(ctx)
				defer func() { ended++ }()
				return spindle.Grace(ctx, time.Minute, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
			})
		}
		if err := spindle.Sleep(ctx, time.Second); err != nil {
			return err
		}
		panic("boom")
	})
	t.Errorf("it returned %v", err)
}

// TestFailNowUnderRunEndsTheTest and no other one.
// TestGoexitOfATask cancels the others, and then Run calls Goexit too. A nursery inside the
// run has failed with a panic.
// TestGoexitIsLoggedWithOtherFailures: Run does not return then, so it logs what else has
// failed, and nothing if the Goexit is all.
