package inspect

import "time"

// The inspector looks at loops from outside, and must not depend on the clock of one that
// is blocked. All its uses of the system's clock are here.

// started is when the process was, or nearly.
var started = time.Now()

// now returns the time since the process was started.
func now() time.Duration { return time.Since(started) }

// wallTime returns the time of day.
func wallTime() time.Time { return time.Now() }

// after returns a channel that receives a value after d, and a function that releases it.
func after(d time.Duration) (c <-chan time.Time, stop func() bool) {
	t := time.NewTimer(d)
	return t.C, t.Stop
}
