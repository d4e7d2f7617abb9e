package sim

import (
	"context"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// LeftOpen returns how many descriptors programs of w left open when they ended, not
// counting crashed programs.
func LeftOpen(w *World) int { return w.core.LeftOpen() }

// ScheduledFault is a fault of World.Faults as it was drawn.
type ScheduledFault = fault

// Scheduled returns the faults of w that shrinking has not left out.
func Scheduled(w *World) []ScheduledFault { return w.scheduled() }

// Lasts returns the duration of the fault.
func (f fault) Lasts() time.Duration { return f.lasts }

// What returns the description of the fault.
func (f fault) What() string { return f.what }

// Pipe makes a pipe in the simulated process of the calling task.
func Pipe(ctx context.Context) (r, w int, err error) { return processOf(ctx, "Pipe").Pipe() }

// SocketPair makes two connected Unix sockets in the simulated process of the calling
// task.
func SocketPair(ctx context.Context) (a, b int, err error) {
	return processOf(ctx, "SocketPair").SocketPair()
}

// Confirms returns which of several looks at a goroutine that makes no progress report it.
func Confirms(looks ...*simkernel.BlockedError) (reported []bool) {
	s := &stall{}
	for _, b := range looks {
		reported = append(reported, s.confirm(b))
	}
	return reported
}
