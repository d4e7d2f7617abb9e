package inspect

import (
	"sync/atomic"
	"time"
)

// The inspector looks at loops from outside, and must not depend on the clock of one that
// is blocked. All its uses of the system's clock are here.

// started is when the process was, or nearly.
var started = time.Now()

// Tests let an hour pass in seconds: they move the clock ahead and make pauses shorter.
var (
	ahead  atomic.Int64 // nanoseconds; it only grows
	faster atomic.Int64 // by which factor pauses are shorter; 0 is the same as 1
)

// now returns the time since the process was started.
func now() time.Duration { return time.Since(started) + time.Duration(ahead.Load()) }

// wallTime returns the time of day.
func wallTime() time.Time { return time.Now() }

// after returns a channel that receives a value after d, and a function that releases it.
func after(d time.Duration) (c <-chan time.Time, stop func() bool) {
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// afterPause is after for pauses between two actions, not for time limits.
func afterPause(d time.Duration) (c <-chan time.Time, stop func() bool) {
	return after(d / time.Duration(max(faster.Load(), 1)))
}

// afterFunc calls fn on a goroutine after a pause of d, unless it is stopped before.
func afterFunc(d time.Duration, fn func()) *time.Timer {
	return time.AfterFunc(d/time.Duration(max(faster.Load(), 1)), fn)
}
