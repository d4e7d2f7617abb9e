package contexts_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// loopTime returns the time at which the clock of ctx's loop shows at, in a simulated run.
func loopTime(ctx context.Context, at time.Duration) time.Time {
	return spindle.Now(ctx).Add(at - spindle.LoopOf(ctx).Time())
}

// forever waits until it is cancelled.
func forever(ctx context.Context) error { return spindle.Sleep(ctx, 1<<62) }
