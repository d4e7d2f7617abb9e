package relay

import (
	"context"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// clock is the clock of a Caller or of a Serve: that of the loop where it was made in a
// task, so that it can be simulated, and otherwise the system's.
type clock struct{ l *loop.Loop }

func clockOf(ctx context.Context) clock {
	if spindle.ScopeOf(ctx) == nil {
		return clock{}
	}
	return clock{spindle.LoopOf(ctx)}
}

func (c clock) now() time.Time {
	if c.l == nil {
		return time.Now()
	}
	return c.l.Internal().Kernel().At(c.l.Time())
}

// after calls fn on a goroutine of its own after d. It is for goroutines outside of any loop.
func after(d time.Duration, fn func()) *time.Timer { return time.AfterFunc(d, fn) }
