package loopcore

import "time"

// A poll of the kernel costs more than a short callback. So a loop with callbacks that are
// ready polls only after several of them. How many follows from how long they took: after
// PollEvery if they are short, after each turn if they are long. Otherwise a task that
// computes for a few milliseconds and yields, as it should, would delay connections and
// timers by a multiple of that.

// PollEvery is the most callbacks after which the kernel is polled although more are
// ready.
const PollEvery = 61

// longBatch is the time after which the kernel should be polled again.
const longBatch = time.Millisecond

// PollDue reports whether the kernel is to be polled although more callbacks are ready.
func (c *Loop) PollDue() bool { return c.SincePoll >= c.pollAfter }

// AdaptPolling decides when PollDue reports true next. The last poll was ran callbacks ago,
// and took is the time since then, or negative if the loop has waited: the next callbacks
// may be of another kind, so fewer of them run before the next poll.
func (c *Loop) AdaptPolling(ran int, took time.Duration) {
	switch {
	case took < 0:
		c.pollAfter /= 2
	case took > longBatch:
		c.pollAfter = int(time.Duration(ran) * longBatch / took)
	case took < longBatch/2 && ran >= c.pollAfter:
		c.pollAfter *= 2
	}
	c.pollAfter = min(max(c.pollAfter, 1), PollEvery)
}
