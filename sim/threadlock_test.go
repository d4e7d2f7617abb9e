package sim_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestLockedThreadsInAWorldAreNamed: a host is a coroutine. The runtime would end the
// process at a switch on a locked thread.
func TestLockedThreadsInAWorldAreNamed(t *testing.T) {
	for name, program := range map[string]func(ctx context.Context) error{
		"callback": func(ctx context.Context) error {
			spindle.LoopOf(ctx).CallLater(time.Second, runtime.LockOSThread)
			return spindle.Sleep(ctx, time.Hour)
		},
		"task": func(ctx context.Context) error {
			runtime.LockOSThread()
			return spindle.Sleep(ctx, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sim.NewWorld(1)
			w.Host("locks").Go(program)
			w.Host("other").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Minute) })
			err := w.Run()
			if err == nil || !strings.Contains(err.Error(), "runtime.LockOSThread") {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
