//go:build go1.26 && !go1.27 && !spindle_portable

package threads_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// TestEndsOnALockedThread: a task on a locked thread can exit, and a loop with such coroutines in its pool
// can be closed. Without direct switches each exit leaves a coroutine behind: design 020.
func TestEndsOnALockedThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := spindle.NurseryOn(t.Context(), l)
	exited := 0
	for i := range 10 {
		n.GoWith(spindle.TaskOptions{Values: t.Context()}, func(ctx context.Context) error {
			for range i {
				if err := spindle.Yield(ctx); err != nil {
					break // one that exits cancels the others
				}
			}
			exited++
			if i%2 == 1 {
				runtime.Goexit()
			}
			return nil
		})
	}
	for exited < 10 {
		l.RunOnce(0)
	}
	var failed *spindle.Errors // the nursery was not ended, so Close returns its errors
	if err := l.Close(); !errors.As(err, &failed) || len(failed.Errs) != 5 {
		t.Fatal(err)
	}
}
