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

// ReplayCommand returns the command that replays a failure of w, limited to its parts, in a
// test of the given name.
func ReplayCommand(w *World, test string) string {
	f := &Failure{World: w}
	w.only = partsOf(f.Parts())
	return f.testCommand(test, 1)
}

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

// Looks plays a stall of 200 checks. A look at the goroutine finds what found returns.
// It returns the checks that look, and the one that reports a block, or 0.
func Looks(found func() *simkernel.BlockedError) (looks []int, report int) {
	s := &stall{}
	for s.same = 1; s.same <= 200; s.same++ {
		if !s.lookDue() {
			continue
		}
		looks = append(looks, s.same)
		if s.confirm(found()) {
			return looks, s.same
		}
	}
	return looks, 0
}

// IsReported reports whether the run of the calling task will fail, because a stall or a
// stray call was reported.
func IsReported(ctx context.Context) func() bool { return processOf(ctx, "IsReported").IsReported }

// Share is share.
func Share(seed uint64) float64 { return share(seed) }

// Errors that programs do not compare with.
var (
	ErrStandstill     = simkernel.ErrStandstill
	ErrStray          = simkernel.ErrStray
	ErrBlocked        = simkernel.ErrBlocked
	ErrBrokenSequence = errBrokenSequence
)
