package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestTimeoutKeepsTheInnerError: the error wraps the one of fn, and names the wait.
func TestTimeoutKeepsTheInnerError(t *testing.T) {
	wrapped := func(ctx context.Context) error {
		if err := forever(ctx); err != nil {
			return fmt.Errorf("reading the header: %w", err)
		}
		return nil
	}
	joined := func(ctx context.Context) error { return errors.Join(forever(ctx), errCause) }
	named := spindle.TaskOptions{Name: "fetch"}
	nursery := func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(named, wrapped)
			n.Go(forever)
			return forever(ctx)
		})
	}
	between := func(ctx context.Context) error {
		ctx.(*spindle.Scope).SetDeadline(spindle.Now(ctx))
		return spindle.Yield(ctx)
	}
	sim.Test(t, func(ctx context.Context) error {
		for _, c := range []struct {
			name     string
			fn       func(context.Context) error
			waiting  string
			contains string
		}{
			{"bare", forever, "Sleep (task main)", "spindle: timed out after 1s waiting for Sleep (task main)"},
			{"wrapped", wrapped, "Sleep (task main)", "(task main): reading the header: spindle: deadline exceeded"},
			{"joined", joined, "Sleep (task main)", "the cause"},
			{"a nursery", nursery, "Sleep (task main), and 2 more", "reading the header"},
			{"between two waits", between, "", "spindle: timed out after 1s"},
		} {
			for way, run := range map[string]func(context.Context, time.Duration, func(context.Context) error) error{
				"FailAfter": spindle.FailAfter, "Grace": spindle.Grace,
			} {
				err := run(ctx, time.Second, c.fn)
				if waits := strings.Contains(err.Error(), " after 1s waiting for "+c.waiting); waits != (c.waiting != "") || !strings.Contains(err.Error(), c.contains) {
					t.Errorf("%s, %s: %v", way, c.name, err)
				}
				var inner *spindle.Canceled
				if !errors.As(err, &inner) || !errors.Is(err, spindle.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, %s: %v wraps %v", way, c.name, err, inner)
				}
				var timeout net.Error
				if !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("%s, %s: %v is no net.Error", way, c.name, err)
				}
				if c.name == "joined" && !errors.Is(err, errCause) {
					t.Errorf("%s: the other error is lost: %v", way, err)
				}
			}
		}
		return nil
	})
}

// TestTimeoutIsNotAbsorbedFurtherOut: a scope around it does not absorb it as its
// own cancellation, even if that scope is cancelled too.
func TestTimeoutIsNotAbsorbedFurtherOut(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			err := spindle.FailAfter(ctx, time.Second, forever)
			s.Cancel(nil)
			return err
		})
		if !errors.Is(err, spindle.ErrTimeout) {
			t.Errorf("%v", err)
		}
		return nil
	})
}

// TestCancelIsNoTimeout: a scope that is cancelled before its deadline has not timed out.
func TestCancelIsNoTimeout(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		cause := errors.New("cause")
		cancelled := func(ctx context.Context) error {
			spindle.ScopeOf(ctx).Cancel(cause)
			return forever(ctx)
		}
		for name, timeout := range map[string]func(context.Context, time.Duration, func(context.Context) error) error{
			"FailAfter": spindle.FailAfter, "Grace": spindle.Grace,
		} {
			if err := timeout(ctx, time.Hour, cancelled); !errors.Is(err, cause) || errors.Is(err, spindle.ErrTimeout) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if expired, err := spindle.MoveOnAfter(ctx, time.Hour, cancelled); expired || err != nil {
			t.Errorf("MoveOnAfter: %v, %v", expired, err)
		}
		return nil
	})
}
