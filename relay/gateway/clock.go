package gateway

import (
	"context"
	"time"

	"github.com/spindleloop/spindle"
)

// now returns the time of the loop of a task, which may be simulated, and otherwise that of the
// machine.
func now(ctx context.Context) time.Time {
	if spindle.Current(ctx) != nil {
		return spindle.Now(ctx)
	}
	return time.Now()
}
