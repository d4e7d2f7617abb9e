package sim_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/sim"
)

// TestLibraryTimersFollowVirtualTime: a timeout of the standard library ends by the world's
// clock.
func TestLibraryTimersFollowVirtualTime(t *testing.T) {
	programs := map[string]func(ctx context.Context) error{
		"a context with a time-out": func(ctx context.Context) error {
			late, cancel := context.WithTimeout(ctx, 90*time.Minute)
			defer cancel()
			begun := spindle.LoopOf(ctx).Time()
			err := spindle.Sleep(late, 24*time.Hour)
			if took := spindle.LoopOf(ctx).Time() - begun; took != 90*time.Minute || !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("%w after %v", err, took)
			}
			return nil
		},
		"a context that a timer ends": func(ctx context.Context) error {
			ended, cancel := context.WithCancel(ctx)
			time.AfterFunc(90*time.Minute, cancel)
			err := spindle.Sleep(ended, 24*time.Hour)
			if took := spindle.LoopOf(ctx).Time(); took != 90*time.Minute || !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%w after %v", err, took)
			}
			return nil
		},
		"the time of day": func(ctx context.Context) error {
			begun := time.Now()
			if err := spindle.Sleep(ctx, time.Hour); err != nil {
				return err
			}
			if took := time.Since(begun); took != time.Hour {
				return fmt.Errorf("an hour took %v", took)
			}
			if wall := spindle.LoopOf(ctx).Internal().Kernel().Wall(); !wall.Equal(time.Now()) {
				return fmt.Errorf("it is %v for the world and %v for its bubble", wall, time.Now())
			}
			return nil
		},
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, program)
		})
		t.Run(name+", among others", func(t *testing.T) {
			sim.Explore(t, 5, func(w *sim.World) {
				w.Host("it").Go(program)
				w.Host("server").Serve(serveEcho(":7"))
				w.Host("other").Go(func(ctx context.Context) error {
					for range 100 {
						if err := ask(ctx, "server:7", "hello"); err != nil {
							return err
						}
						if err := spindle.Sleep(ctx, 3*time.Minute); err != nil {
							return err
						}
					}
					return nil
				})
			})
		})
	}
}

// TestCryptoDrawsFromTheSeed: the random numbers of libraries depend on the seed only.
func TestCryptoDrawsFromTheSeed(t *testing.T) {
	drawn := map[string]int{}
	for range 2 {
		sim.Explore(t, 4, func(w *sim.World) { // some of the seeds are run twice
			w.Host("a").Go(func(context.Context) error {
				drawn[rand.Text()]++
				return nil
			})
		})
	}
	if len(drawn) != 4 {
		t.Errorf("%d different texts of 4 seeds", len(drawn))
	}
}

// inChild runs the calling test in a child process, in which it calls fail, and returns the
// child's output. In the child it returns "".
func inChild(t *testing.T, fail func()) string {
	if os.Getenv(childSays) != "" {
		fail()
		return ""
	}
	names := strings.Split(t.Name(), "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+strings.Join(names, "/"))
	cmd.Env = append(os.Environ(), childSays+"=1", "TMPDIR="+t.TempDir())
	said, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the child passes:\n%s", said)
	}
	return string(said)
}

func TestGoroutinesAreReported(t *testing.T) {
	programs := map[string]func(ctx context.Context) error{
		"one that posts": func(ctx context.Context) error {
			l := spindle.LoopOf(ctx)
			posted := make(chan struct{})
			go strayGoroutine(func() {
				l.Post(func() {})
				close(posted)
			})
			<-posted
			return spindle.Sleep(ctx, time.Second)
		},
		"one that only waits": func(ctx context.Context) error {
			over := make(chan struct{})
			defer close(over)
			go strayGoroutine(func() { <-over })
			return spindle.Sleep(ctx, time.Second)
		},
		"one that is left behind": func(ctx context.Context) error {
			go strayGoroutine(func() { select {} })
			return nil
		},
	}
	for name, program := range programs {
		for how, run := range map[string]func(t *testing.T){
			"Test": func(t *testing.T) { sim.Test(t, program) },
			"Explore": func(t *testing.T) {
				sim.Explore(t, 1, func(w *sim.World) { w.Host("host").Go(program) })
			},
		} {
			t.Run(name+" in "+how, func(t *testing.T) {
				said := inChild(t, func() { run(t) })
				for _, want := range []string{sim.ErrStray.Error(), "strayGoroutine", "created by", "bubble_test.go"} {
					if said != "" && !strings.Contains(said, want) {
						t.Errorf("the report does not have %q:\n%s", want, said)
					}
				}
			})
		}
	}
}

// TestGoroutinesAreReportedOutsideOfTests: without a bubble, only goroutines that post to a
// loop are.
func TestGoroutinesAreReportedOutsideOfTests(t *testing.T) {
	w := sim.NewWorld(1)
	w.Host("host").Go(func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		posted := make(chan struct{})
		go strayGoroutine(func() {
			l.Post(func() {})
			close(posted)
		})
		<-posted
		return spindle.Sleep(ctx, time.Second)
	})
	err := w.Run()
	var stray *simkernel.StrayError
	if !errors.Is(err, sim.ErrStray) || !errors.As(err, &stray) || stray.Host != "host" || !strings.Contains(string(stray.Stack), "strayGoroutine") {
		t.Error(err)
	}
}

func strayGoroutine(fn func()) { fn() }

// TestProgramsOfOneWorldMayPostToEachOther, because they run one at a time.
func TestProgramsOfOneWorldMayPostToEachOther(t *testing.T) {
	sim.Explore(t, 10, func(w *sim.World) {
		came := 0
		var post func(fn func()) error
		w.Host("a").Serve(func(ctx context.Context) error {
			post = spindle.LoopOf(ctx).Post
			return spindle.Sleep(ctx, time.Hour)
		})
		w.Host("b").Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			return post(func() { came++ })
		})
		w.After(2*time.Second, func() { post(func() { came++ }) })
		w.Eventually("both came", 3*time.Second, func() bool { return came == 2 })
		w.Host("c").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, 4*time.Second) })
	})
}
