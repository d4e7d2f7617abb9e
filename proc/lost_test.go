package proc_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/proc"
)

// lossless runs a program that often, and wants every run to end without an error.
func lossless(t *testing.T, rounds int, program func(ctx context.Context) error) {
	t.Helper()
	for i := range rounds {
		if err := spindle.Run(t.Context(), program); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// TestSignalsNeedNoClose: the end of their scope closes them, and is no work that is
// lost, also when it is the end of the run, and a signal comes at that moment.
func TestSignalsNeedNoClose(t *testing.T) {
	receive := func(ctx context.Context) error {
		_, err := proc.Signals(ctx, syscall.SIGUSR1)
		return err
	}
	t.Run("end of the run", func(t *testing.T) { lossless(t, 1000, receive) })
	t.Run("end of a scope", func(t *testing.T) {
		lossless(t, 1000, func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error { return receive(ctx) })
		})
	})
	outer := make(chan os.Signal, 1)
	notify(t, outer, syscall.SIGUSR1) // or one that comes late would end the program
	t.Run("signal at the end", func(t *testing.T) {
		lossless(t, 1000, func(ctx context.Context) error {
			if err := receive(ctx); err != nil {
				return err
			}
			send(t, syscall.SIGUSR1)
			return nil
		})
	})
	t.Run("OnSignal", func(t *testing.T) {
		for i := range 1000 {
			l, err := loop.New(loop.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := proc.OnSignal(l, func(os.Signal) {}, syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			send(t, syscall.SIGUSR1)
			if err := l.Close(); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	})
}

// TestAProcessThatIsLateIsNoLoss: it ends, or is ended, about when the run does.
func TestAProcessThatIsLateIsNoLoss(t *testing.T) {
	for _, handles := range []bool{true, false} {
		took := time.Millisecond
		lossless(t, 500, func(ctx context.Context) error {
			cmd := world{handles: handles}.cmd(proc.Command("true"))
			begun := spindle.Now(ctx)
			late, err := spindle.MoveOnAfter(ctx, took, cmd.Run)
			if ended := spindle.Now(ctx) - begun; !late {
				took = ended * 7 / 8 // near to what it takes
			} else {
				took = ended * 9 / 8
			}
			var exit interface{ ExitCode() int }
			if errors.As(err, &exit) { // it was ended, and the scope not left by that
				err = nil
			}
			return err
		})
	}
	noChildren(t)
}
