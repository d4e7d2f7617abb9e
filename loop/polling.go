package loopcore

import "time"

// A poll of the kernel costs more than a short callback. So a loop with callbacks that are
// ready polls only after several of them. How many follows from how long they took: after
// PollEvery if they are very short, after each turn if they are long. Otherwise a task that
// computes for a few milliseconds and yields, as it should, would delay connections and
// timers by a multiple of that.

// PhaseSize is the most callbacks that one phase of a turn runs. After as many the clock is
// read, and unless hardly any time has passed the kernel is polled.
const PhaseSize = 61

// PollEvery is the most callbacks after which the kernel is polled although more are
// ready.
const PollEvery = 4 * PhaseSize

// MaxFreeWaits is the most waits of a task that may complete at once before it must let
// others run.
const MaxFreeWaits = 64

const (
	shortBatch = 100 * time.Microsecond // before which no poll is due, below PollEvery
	longBatch  = time.Millisecond       // after which the kernel should be polled again
)

// PollDue reports whether the kernel is to be polled although more callbacks are ready.
func (c *Loop) PollDue() bool { return c.pollMayBeDue() && !c.postponePoll() }

// pollMayBeDue reports whether PollDue has to look at the clock. A task asks only for this,
// and leaves the rest to the loop: reading the clock would make its stack grow for good.
func (c *Loop) pollMayBeDue() bool { return c.SincePoll >= c.pollAfter }

// postponePoll lets a further PhaseSize of callbacks run before the next poll, and reports
// whether it did: not if the last ones took long. Reading the clock costs much less than a
// poll, which would be a large part of the time of tasks that only switch.
func (c *Loop) postponePoll() bool {
	if c.pollAfter < PhaseSize || c.SincePoll >= PollEvery || c.config.Kernel.Mono()-c.now >= shortBatch {
		return false
	}
	c.pollAfter += PhaseSize
	return true
}

// BeginPoll returns how many callbacks have run since the last poll, and counts from zero
// again. What postponePoll has granted ends here.
func (c *Loop) BeginPoll() (ran int) {
	ran, c.SincePoll = c.SincePoll, 0
	c.pollAfter = min(c.pollAfter, PhaseSize)
	return ran
}

// FreeWaits returns how many waits of a task may complete at once before it must let others
// run: one if the last callbacks were long.
func (c *Loop) FreeWaits() int8 { return c.freeWaits }

// PollSooner makes fewer callbacks run before the next poll. It is for a loop that has
// waited: the next callbacks may be of another kind.
func (c *Loop) PollSooner() { c.pollAfter = max(c.pollAfter/2, 1) }

// AdaptPolling decides when PollDue reports true next, and on FreeWaits. The last poll was ran
// callbacks ago, and took is the time since then.
func (c *Loop) AdaptPolling(ran int, took time.Duration) {
	switch {
	case took > longBatch:
		c.pollAfter = int(time.Duration(ran) * longBatch / took)
		if c.pollAfter == 0 && ran > 0 {
			c.freeWaits = 1
		}
	case took < longBatch/2 && ran >= c.pollAfter:
		c.pollAfter *= 2
		if c.freeWaits < MaxFreeWaits {
			c.freeWaits *= 2
		}
	}
	c.pollAfter = min(max(c.pollAfter, 1), PhaseSize)
}
