package loop

import "time"

// A poll of the kernel costs more than a short callback. So a loop with callbacks that are
// ready polls only after several of them. How many follows from how long they took: after
// pollEvery if they are very short, after each turn if they are long. Otherwise a task that
// computes for a few milliseconds and yields, as it should, would delay connections and
// timers by a multiple of that.

// phaseSize is the most callbacks that one phase of a turn runs. After as many the clock is
// read, and unless hardly any time has passed the kernel is polled.
const phaseSize = 61

// pollEvery is the most callbacks after which the kernel is polled although more are
// ready.
const pollEvery = 4 * phaseSize

// maxFreeWaits is the most waits of a task that may complete at once before it must let
// others run.
const maxFreeWaits = 64

const (
	shortBatch = 100 * time.Microsecond // before which no poll is due, below pollEvery
	longBatch  = time.Millisecond       // after which the kernel should be polled again
)

// pollDue reports whether the kernel is to be polled although more callbacks are ready.
func (l *Loop) pollDue() bool { return l.pollMayBeDue() && !l.postponePoll() }

// pollMayBeDue reports whether pollDue has to look at the clock. A task asks only for this,
// and leaves the rest to the loop: reading the clock would make its stack grow for good.
func (l *Loop) pollMayBeDue() bool { return l.sincePoll >= l.pollAfter }

// postponePoll lets a further phaseSize of callbacks run before the next poll, and reports
// whether it did: not if the last ones took long. Reading the clock costs much less than a
// poll, which would be a large part of the time of tasks that only switch.
func (l *Loop) postponePoll() bool {
	if l.pollAfter < phaseSize || l.sincePoll >= pollEvery || l.k.Mono()-l.now >= shortBatch {
		return false
	}
	l.pollAfter += phaseSize
	return true
}

// beginPoll returns how many callbacks have run since the last poll, and counts from zero
// again. What postponePoll has granted ends here.
func (l *Loop) beginPoll() (ran int) {
	ran, l.sincePoll = l.sincePoll, 0
	l.pollAfter = min(l.pollAfter, phaseSize)
	return ran
}

// pollSooner makes fewer callbacks run before the next poll. It is for a loop that has
// waited: the next callbacks may be of another kind.
func (l *Loop) pollSooner() { l.pollAfter = max(l.pollAfter/2, 1) }

// adaptPolling decides when pollDue reports true next, and on freeWaits. The last poll was ran
// callbacks ago, and took is the time since then.
func (l *Loop) adaptPolling(ran int, took time.Duration) {
	switch {
	case took > longBatch:
		l.pollAfter = int(time.Duration(ran) * longBatch / took)
		if l.pollAfter == 0 && ran > 0 {
			l.freeWaits = 1
		}
	case took < longBatch/2 && ran >= l.pollAfter:
		l.pollAfter *= 2
		if l.freeWaits < maxFreeWaits {
			l.freeWaits *= 2
		}
	}
	l.pollAfter = min(max(l.pollAfter, 1), phaseSize)
}
