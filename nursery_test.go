package spindle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// nurse opens a nursery under virtual time and returns its error.
func nurse(t *testing.T, fn func(ctx context.Context, n *spindle.Nursery) error) error {
	t.Helper()
	return sim.Run(t.Context(), func(ctx context.Context) error { return spindle.WithNursery(ctx, fn) })
}

func TestNurseryWaitsForItsTasks(t *testing.T) {
	ended := 0
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		for i := range 10 {
			n.Go(func(ctx context.Context) error {
				err := spindle.Sleep(ctx, time.Duration(i)*time.Hour)
				ended++
				return err
			})
		}
		return nil
	})
	if err != nil || ended != 10 {
		t.Fatalf("%d ended, %v", ended, err)
	}
}

func TestErrorsAreJoined(t *testing.T) {
	first, second, body := errors.New("first"), errors.New("second"), errors.New("body")
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error { spindle.Sleep(ctx, time.Second); return first })
		n.Go(func(ctx context.Context) error { forever(ctx); return second })
		forever(ctx)
		return body
	})
	var all *spindle.Errors
	if !errors.As(err, &all) || len(all.Errs) != 3 || !errors.Is(err, first) || !errors.Is(err, second) || !errors.Is(err, body) {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(err.Error(), "- second") {
		t.Errorf("text %q", err)
	}
}

func TestSpawnIntoACancelledNursery(t *testing.T) {
	began := false
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		boom := errors.New("boom")
		n.Go(func(ctx context.Context) error { return boom })
		if err := forever(ctx); err == nil {
			t.Error("not cancelled")
		}
		n.Go(func(ctx context.Context) error { began = true; return forever(ctx) }) // ends at its first wait
		return nil
	})
	if err == nil || !began {
		t.Fatalf("%v, began %v", err, began)
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

func TestGoexitIsAFailure(t *testing.T) {
	deferred := false
	defer func() {
		p, ok := recover().(*spindle.PanicError)
		if !ok || p.Value != loop.ErrGoexit || !deferred {
			t.Fatalf("panic %v, deferred %v", p, deferred)
		}
	}()
	nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			defer func() { deferred = true }()
			spindle.Yield(ctx)
			runtime.Goexit()
			return nil
		})
		return forever(ctx)
	})
}

func TestStart(t *testing.T) {
	boom := errors.New("boom")
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		port, err := spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error {
			spindle.Sleep(ctx, time.Second)
			started(8080)
			return spindle.Sleep(ctx, time.Minute)
		})
		if port != 8080 || err != nil || spindle.LoopOf(ctx).Time() != time.Second {
			t.Errorf("started %d, %v at %v", port, err, spindle.LoopOf(ctx).Time())
		}
		if _, err := spindle.Start(ctx, n, func(context.Context, func(int)) error { return boom }); err != boom {
			t.Errorf("failed start: %v", err)
		}
		if _, err := spindle.Start(ctx, n, func(context.Context, func(int)) error { return nil }); err != spindle.ErrNotStarted {
			t.Errorf("start without report: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeepNesting(t *testing.T) {
	var nest func(ctx context.Context, depth int) error
	nest = func(ctx context.Context, depth int) error {
		if depth == 0 {
			return spindle.Sleep(ctx, time.Second)
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return nest(ctx, depth-1) })
			return nil
		})
	}
	sim.Test(t, func(ctx context.Context) error { return nest(ctx, 1000) })
}

func TestHundredThousandSleepersWakeInOrder(t *testing.T) {
	const many = 100_000
	last, woken := -1, 0
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		for i := range many {
			n.Go(func(ctx context.Context) error {
				at := (i * 7919) % many
				err := spindle.Sleep(ctx, time.Duration(at+1)*time.Microsecond)
				if at != last+1 {
					return fmt.Errorf("%d woke after %d", at, last)
				}
				last = at
				woken++
				return err
			})
		}
		return nil
	})
	if err != nil || woken != many {
		t.Fatalf("%d woke, %v", woken, err)
	}
}

func TestStragglersAreEndedAndNamed(t *testing.T) {
	deferred := false
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "stubborn"}, func(ctx context.Context) error {
			defer func() { deferred = true }()
			for {
				spindle.Sleep(ctx, time.Second) // heeds nothing
			}
		})
		spindle.RootNursery(ctx).Go(forever) // heeds it
		return spindle.Yield(ctx)
	})
	var late *spindle.StragglerError
	if !errors.As(err, &late) || len(late.Tasks) != 1 || late.Tasks[0] != "stubborn" || !deferred {
		t.Fatalf("%v, deferred %v", err, deferred)
	}
}
