package loopcore

import "time"

// A poll of the kernel costs more than a short callback. So a loop with callbacks that are
// ready polls only after several of them. How many follows from how long they took: after
// PollEvery if they are short, after each turn if they are long. Otherwise a task that
// computes for a few milliseconds and yields, as it should, would delay connections and
// timers by a multiple of that.

// PollEvery is the most callbacks after which the kernel is polled although more are
// ready. It is also the most that one phase of a turn runs.
const PollEvery = 61

// MaxFreeWaits is the most waits of a task that may complete at once before it must let
// others run.
const MaxFreeWaits = 64

// longBatch is the time after which the kernel should be polled again.
const longBatch = time.Millisecond

// PollDue reports whether the kernel is to be polled although more callbacks are ready.
func (c *Loop) PollDue() bool { return c.SincePoll >= c.pollAfter }

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
	c.pollAfter = min(max(c.pollAfter, 1), PollEvery)
}
