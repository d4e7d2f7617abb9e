package proc_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/proc"
)

// TestProcessGetsItsGraceInACancelledRun: Cmd.Grace is longer than that of the run, which does
// not cut it. The process ignores SIGTERM, and exits by itself when the run's time is over.
func TestProcessGetsItsGraceInACancelledRun(t *testing.T) {
	const runs = 100 * time.Millisecond
	later := func(ctx context.Context, p *proc.Process) { // when the run's time is over
		spindle.LoopOf(ctx).CallLater(4*runs, func() { p.Signal(syscall.SIGUSR1) })
	}
	for name, program := range map[string]func(ctx context.Context, cancel func(), cmd *proc.Cmd) (*proc.Process, error){
		"Start": func(ctx context.Context, cancel func(), cmd *proc.Cmd) (*proc.Process, error) {
			p, err := ready(t, ctx, cmd)
			later(ctx, p)
			cancel()
			return p, err
		},
		"Start, and the task ends before": func(ctx context.Context, _ func(), cmd *proc.Cmd) (*proc.Process, error) {
			p, err := ready(t, ctx, cmd)
			later(ctx, p)
			return p, err
		},
		"Start in Grace": func(ctx context.Context, cancel func(), cmd *proc.Cmd) (p *proc.Process, err error) {
			cmd.Grace = -1
			cancel()
			return p, spindle.Grace(ctx, time.Hour, func(ctx context.Context) error {
				if p, err = ready(t, ctx, cmd); err != nil {
					return err
				}
				later(ctx, p)
				return p.Wait(ctx)
			})
		},
		"Run": func(ctx context.Context, cancel func(), cmd *proc.Cmd) (*proc.Process, error) {
			var p *proc.Process
			cmd.Cancel = func(told *proc.Process) error {
				p = told
				later(ctx, p)
				return nil
			}
			cmd.Stdout = writer(func(b []byte) (int, error) { cancel(); return len(b), nil })
			if err := cmd.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
			return p, nil
		},
	} {
		for _, handles := range []bool{true, false} {
			if !handles && name != "Start" {
				continue // it makes no difference, and takes time
			}
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var p *proc.Process
				err := spindle.Options{Grace: runs}.Run(ctx, func(ctx context.Context) (err error) {
					cmd := variant{"", handles}.role("stubborn")
					cmd.Grace = time.Hour
					p, err = program(ctx, cancel, cmd)
					return err
				})
				if ctx.Err() == nil && err != nil || errors.Is(err, spindle.ErrStragglers) {
					t.Errorf("the run ended with %v", err)
				}
				if p.State() == nil || !p.State().Success() {
					t.Errorf("the process ended with %v", p.State())
				}
				noChildren(t)
			})
		}
	}
}
