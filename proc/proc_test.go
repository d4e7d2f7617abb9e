package proc_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/sim"
)

func TestMisusePanics(t *testing.T) {
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
			"Close from another goroutine": func() {
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

// TestSimulatedRunHasNoProcesses checks that a simulated run never touches the
// machine by accident.
func TestSimulatedRunHasNoProcesses(t *testing.T) {
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
