package spindle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

func TestRunReturnsTheResult(t *testing.T) {
	boom := errors.New("boom")
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		return boom
	})
	if err != boom {
		t.Fatal(err)
	}
}

func TestNurserySmoke(t *testing.T) {
	order := ""
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for _, s := range []string{"a", "b", "c"} {
				n.Go(func(ctx context.Context) error {
					for range 3 {
						order += s
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		})
	})
	if err != nil || order != "abcabcabc" {
		t.Fatal(err, order)
	}
}

func TestFirstFailureCancels(t *testing.T) {
	boom := errors.New("boom")
	var other error
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { other = spindle.Sleep(ctx, time.Hour); return other })
			n.Go(func(ctx context.Context) error { spindle.Sleep(ctx, time.Millisecond); return boom })
			return nil
		})
	})
	if err != boom || !errors.Is(other, context.Canceled) {
		t.Fatal(err, other)
	}
}

func TestTimeouts(t *testing.T) {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			return spindle.Sleep(ctx, time.Hour)
		})
		if !expired || err != nil {
			t.Error(expired, err)
		}
		return spindle.FailAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			return spindle.Sleep(ctx, time.Hour)
		})
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestCtxCancelsRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := spindle.Run(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
