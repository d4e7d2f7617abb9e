package proc_test

import (
	"context"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/proc"
)

func TestCloseKillsWithoutWait(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		p, err := ready(t, ctx, w.role("stubborn"))
		if err != nil {
			return err
		}
		p.Close()
		p.Close()
		p.Wait(ctx)
		if status(p).Signal() != syscall.SIGKILL {
			t.Error(p.State())
		}
		return nil
	})
}

// TestCloseLeavesTheGracePeriod: a deferred Close after a cancellation neither kills the
// child nor closes the pipe that it writes to when it exits.
func TestCloseLeavesTheGracePeriod(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		for _, c := range []struct {
			role  string
			grace time.Duration
			sig   syscall.Signal // 0 if the child exits by itself
		}{{"polite", time.Hour, 0}, {"stubborn", time.Millisecond, syscall.SIGKILL}, {"stubborn", -1, syscall.SIGKILL}} {
			cmd := w.role(c.role)
			cmd.Grace = c.grace
			var p *proc.Process
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) (err error) {
				if p, err = ready(t, ctx, cmd); err != nil {
					return err
				}
				defer p.Close()
				s.Cancel(nil)
				return p.Wait(ctx)
			})
			if err != nil {
				t.Errorf("the scope returned %v", err)
			}
			p.Wait(ctx)
			if got := status(p); c.sig != 0 && got.Signal() != c.sig || c.sig == 0 && (!got.Exited() || got.ExitStatus() != 0) {
				t.Errorf("%s with grace %v: %v", c.role, c.grace, p.State())
			}
			p.Close()
			if _, err := p.Stdout.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("the pipe is still open: %v", err)
			}
		}
		return nil
	})
}

// TestRunWaitsForTheGracePeriodAfterClose relies on eachVariant to find a child that remains.
func TestRunWaitsForTheGracePeriodAfterClose(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			cmd := w.role("stubborn")
			cmd.Grace = time.Millisecond
			p, err := ready(t, ctx, cmd)
			if err != nil {
				return err
			}
			defer p.Close()
			s.Cancel(nil)
			return p.Wait(ctx)
		})
	})
}
