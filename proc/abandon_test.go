package proc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/sim"
)

// gone waits until a process was waited for by somebody else than its run.
func gone(p *proc.Process) {
	for p.Signal(syscall.Signal(0)) != os.ErrProcessDone {
		runtime.Gosched()
	}
}

func TestAPanicLeavesNoChild(t *testing.T) {
	for _, handles := range []bool{true, false} {
		var p *proc.Process
		func() {
			defer func() {
				if said, ok := recover().(*spindle.PanicError); !ok || said.Value != any("boom") {
					t.Errorf("panic %v", said)
				}
			}()
			spindle.Run(t.Context(), func(ctx context.Context) (err error) {
				cmd := world{"", handles}.role("stubborn")
				cmd.Stdout = writer(func([]byte) (int, error) { panic("boom") })
				if p, err = cmd.Start(ctx); err != nil {
					return err
				}
				return p.Wait(ctx)
			})
		}()
		gone(p)
		noChildren(t)
	}
}

// TestAStragglerLeavesNoChild: a child that cannot be ended in order, in a run that
// has no more patience.
func TestAStragglerLeavesNoChild(t *testing.T) {
	for _, handles := range []bool{true, false} {
		var p *proc.Process
		err := spindle.RunWith(t.Context(), spindle.Options{Grace: time.Millisecond}, func(ctx context.Context) (err error) {
			cmd := world{"", handles}.role("stubborn")
			cmd.Grace = time.Hour
			p, err = ready(t, ctx, cmd)
			return err
		})
		if late := (*spindle.StragglerError)(nil); !errors.As(err, &late) {
			t.Error(err)
		}
		gone(p)
		noChildren(t)
	}
}

// TestAClosedLoopLeavesNoChild, in another process: this one has children of other
// tests.
func TestAClosedLoopLeavesNoChild(t *testing.T) {
	everywhere(t, func(t *testing.T, w world, ctx context.Context, n *spindle.Nursery) error {
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
		cmd := world{handles: args[1] == "true"}.role("stubborn")
		if p, err = cmd.Start(ctx); err != nil {
			return err
		}
		l.Stop()
		return p.Wait(ctx)
	}, nil)
	say(l.Run(context.Background()))
	say(l.Close())
	gone(p)
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		say(fmt.Errorf("a child is left: %v", err))
	}
	return 0
}

func TestMisuseIsNamed(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		piped := role("exit", "0")
		piped.Stdout = proc.Pipe
		p, err := piped.Start(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		for name, misuse := range map[string]func(){
			"Run with a Pipe": func() { piped.Run(ctx) },
			"Output":          func() { piped.Output(ctx) },
			"CombinedOutput":  func() { piped.CombinedOutput(ctx) },
			"Signals":         func() { proc.Signals(ctx) },
			"OnSignal":        func() { proc.OnSignal(spindle.LoopOf(ctx), nil, os.Interrupt) },
			"Close elsewhere": func() {
				said := make(chan any)
				go func() {
					defer func() { said <- recover() }()
					p.Close()
				}()
				panic(<-said)
			},
		} {
			func() {
				defer func() {
					if said, ok := recover().(string); !ok || !strings.HasPrefix(said, "proc: ") {
						t.Errorf("%s: %v", name, said)
					}
				}()
				misuse()
			}()
		}
		if _, err := proc.Pipe.Read(nil); err == nil {
			t.Error("Pipe can be read")
		}
		return p.Wait(ctx)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestASimulatedRunHasNoProcesses, and no signals: it never touches the machine by
// accident.
func TestASimulatedRunHasNoProcesses(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		cmd := role("exit", "0")
		_, err := cmd.Start(ctx)
		_, outErr := cmd.Output(ctx)
		_, sigErr := proc.Signals(ctx, os.Interrupt)
		_, onErr := proc.OnSignal(spindle.LoopOf(ctx), func(os.Signal) {}, os.Interrupt)
		for _, err := range []error{err, cmd.Run(ctx), outErr, sigErr, onErr} {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "simulated") {
				t.Errorf("got %v", err)
			}
		}
		return nil
	})
	noChildren(t)
}
