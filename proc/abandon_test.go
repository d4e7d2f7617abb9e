package proc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/proc"
)

// gone waits until a process has been reaped outside its run.
func gone(t testing.TB, p *proc.Process) {
	t.Helper()
	until.Holds(t, func() bool { return p.Signal(syscall.Signal(0)) == os.ErrProcessDone })
}

func TestPanicLeavesNoChild(t *testing.T) {
	for _, handles := range []bool{true, false} {
		var p *proc.Process
		func() {
			defer func() {
				if said, ok := recover().(*spindle.PanicError); !ok || said.Value != any("boom") {
					t.Errorf("panic %v", said)
				}
			}()
			spindle.Run(t.Context(), func(ctx context.Context) (err error) {
				cmd := variant{"", handles}.role("stubborn")
				cmd.Stdout = writer(func([]byte) (int, error) { panic("boom") })
				if p, err = cmd.Start(ctx); err != nil {
					return err
				}
				return p.Wait(ctx)
			})
		}()
		gone(t, p)
		noChildren(t)
	}
}

// TestStragglerLeavesNoChild: the child's context never ends, and the run's grace period is
// over.
func TestStragglerLeavesNoChild(t *testing.T) {
	for _, handles := range []bool{true, false} {
		var p *proc.Process
		err := spindle.Options{Grace: time.Millisecond}.Run(t.Context(), func(ctx context.Context) (err error) {
			p, err = ready(t, context.WithoutCancel(ctx), variant{"", handles}.role("stubborn"))
			return err
		})
		if !errors.Is(err, spindle.ErrStragglers) {
			t.Error(err)
		}
		gone(t, p)
		noChildren(t)
	}
}

// TestClosedLoopLeavesNoChild runs in another process, because this one has children
// of other tests.
func TestClosedLoopLeavesNoChild(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		out, err := w.role("abandon", w.backend, strconv.FormatBool(w.handles)).CombinedOutput(ctx)
		if len(out) != 0 {
			t.Errorf("%s", out)
		}
		return err
	})
}

func abandonChild(args []string) int {
	say := func(err error) {
		if err != nil {
			fmt.Println(err)
		}
	}
	l, err := loop.New(loop.Options{Backend: args[0]})
	say(err)
	var p *proc.Process
	spindle.RunOn(context.Background(), l, func(ctx context.Context) (err error) {
		cmd := variant{handles: args[1] == "true"}.role("stubborn")
		if p, err = cmd.Start(ctx); err != nil {
			return err
		}
		l.Stop()
		return p.Wait(ctx)
	}, nil)
	say(l.Run(context.Background()))
	say(l.Close())
	until.Tried(func() bool { return p.Signal(syscall.Signal(0)) == os.ErrProcessDone })
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		say(fmt.Errorf("a child remains: %v", err))
	}
	return 0
}

// TestLateProcessIsNoLostWork: the process exits, or is ended, about when the run
// ends.
func TestLateProcessIsNoLostWork(t *testing.T) {
	for _, handles := range []bool{true, false} {
		took := time.Millisecond
		repeat(t, short.Seeds(500), func(ctx context.Context) error {
			cmd := variant{handles: handles}.cmd(proc.Command("true"))
			begun := spindle.Now(ctx)
			late, err := spindle.MoveOnAfter(ctx, took, cmd.Run)
			if ended := spindle.Now(ctx).Sub(begun); !late {
				took = ended * 7 / 8 // close to the usual duration
			} else {
				took = ended * 9 / 8
			}
			var exit interface{ ExitCode() int }
			if errors.As(err, &exit) { // the process was ended, but its scope was not cancelled
				err = nil
			}
			return err
		})
	}
	noChildren(t)
}

// TestExitOnAStoppedLoopIsNoLostWork: the process exits after the loop was stopped, so the
// loop is closed without a turn that could note the exit.
func TestExitOnAStoppedLoopIsNoLostWork(t *testing.T) {
	for _, handles := range []bool{true, false} {
		for i := range short.Seeds(50) {
			l, err := loop.New(loop.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var p *proc.Process
			spindle.RunOn(t.Context(), l, func(ctx context.Context) (err error) {
				if p, err = (variant{handles: handles}).cmd(proc.Command("true")).Start(ctx); err != nil {
					return err
				}
				l.Stop()
				return p.Wait(ctx)
			}, nil)
			if err := l.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !handles {
				gone(t, p)
			}
			if err := l.Close(); err != nil {
				t.Fatalf("handles %v, round %d: %v", handles, i, err)
			}
			gone(t, p)
		}
	}
	noChildren(t)
}
