package spindle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// TestFailNowUnderRunEndsTheTest: that test, and no other.
func TestFailNowUnderRunEndsTheTest(t *testing.T) {
	if os.Getenv("CHILD") != "" {
		t.Run("a", func(t *testing.T) {
			spindle.Run(t.Context(), func(ctx context.Context) error { t.Fatal("fatal"); return nil })
		})
		t.Run("b", func(t *testing.T) { fmt.Println("the next test ran") })
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestFailNowUnderRunEndsTheTest$")
	cmd.Env = append(os.Environ(), "CHILD=1")
	if out, _ := cmd.CombinedOutput(); !bytes.Contains(out, []byte("the next test ran")) {
		t.Errorf("%s", out)
	}
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

func TestGoexitInABodyEndsItsChildren(t *testing.T) {
	var child error
	func() {
		defer func() { recover() }()
		sim.Run(t.Context(), func(ctx context.Context) error {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(ctx context.Context) error { child = spindle.Sleep(ctx, time.Hour); return child })
					spindle.Yield(ctx)
					runtime.Goexit()
					return nil
				})
			})
			return spindle.Sleep(ctx, 2*time.Hour)
		})
	}()
	if !errors.Is(child, context.Canceled) {
		t.Fatalf("the child ended with %v", child)
	}
}
