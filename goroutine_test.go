package spindle_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

// TestForeignGoroutineIsRefusedWithoutARace needs the race detector to fail.
func TestForeignGoroutineIsRefusedWithoutARace(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			if spindle.Current(ctx) != nil {
				t.Error("a goroutine was taken for a task")
			}
			spindle.Checkpoint(ctx)
		}()
		for range 1000 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		if <-done == nil {
			t.Error("not refused")
		}
		if spindle.Current(ctx) == nil {
			t.Error("a task was not recognised")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForeignGoroutinesAreNamed in panics: other goroutines must not change what belongs to
// a loop.
func TestForeignGoroutinesAreNamed(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			f := spindle.NewFuture[int](ctx)
			n := spindle.RootNursery(ctx)
			for name, call := range map[string]func(){
				"Scope.Cancel":      func() { s.Cancel(nil) },
				"Scope.Shield":      func() { s.Shield(true) },
				"Scope.SetDeadline": func() { s.SetDeadline(time.Now()) },
				"Nursery.Go":        func() { n.Go(forever) },
				"a Future":          func() { f.Resolve(1) },
				"Future.Then":       func() { f.Then(func() {}) },
			} {
				caught := make(chan any)
				go func() {
					defer func() { caught <- recover() }()
					call()
				}()
				if text, ok := (<-caught).(string); !ok || !strings.HasPrefix(text, "spindle: ") || !strings.Contains(text, name) {
					t.Errorf("%s: panic %v", name, text)
				}
			}
			return spindle.Yield(ctx) // unharmed
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestForeignSpawnAndTreeAreNamed(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context){
		"Spawn":  func(ctx context.Context) { spindle.Spawn(spindle.RootNursery(ctx), after(1, 1, nil)) },
		"TreeOf": func(ctx context.Context) { spindle.TreeOf(ctx) },
	} {
		spindle.Run(t.Context(), func(ctx context.Context) error {
			caught := make(chan any, 1)
			go func() {
				defer func() { caught <- recover() }()
				call(ctx)
			}()
			for len(caught) == 0 {
				spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { n.Go(spindle.Yield); return spindle.Yield(ctx) })
			}
			if text, _ := (<-caught).(string); !strings.HasPrefix(text, "spindle: ") {
				t.Errorf("%s: %q", name, text)
			}
			return nil
		})
	}
}
