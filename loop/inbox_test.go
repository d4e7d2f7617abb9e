package loop_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

func TestAfterFuncRunsOnTheLoop(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	l.Internal().AfterFunc(ctx, func() {
		if !l.Owns() {
			t.Error("the function does not run on the loop")
		}
		l.Stop()
	})
	stop := l.Internal().AfterFunc(ctx, func() { t.Error("a stopped function ran") })
	if !stop() {
		t.Error("stop returned false")
	}
	cancel()
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAfterFuncIsDroppedAtClose: Close neither runs nor reports the function, whether the
// context has ended or not.
func TestAfterFuncIsDroppedAtClose(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{ended, t.Context()} {
		stop := l.Internal().AfterFunc(ctx, func() { t.Error("the function ran") })
		defer stop()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
