package loop

// Priority is the lane a ready callback waits in. The zero value is Normal.
type Priority uint8

const (
	Normal Priority = iota // where CallSoon and Post put theirs
	High                   // before the others of the same turn
	Low                    // after them
	lanes  = iota
)

// Out of every turn's askEvery callbacks, the lower lanes keep these for
// themselves if they have work: a flood of High slows them but never stops them.
const (
	normalShare = 16
	lowShare    = 4
)

// Handle names a callback that CallSoon scheduled. The zero Handle names none.
type Handle struct {
	l    *Loop
	lane Priority
	seq  uint64
}

// CallSoon runs fn on the loop in a coming turn: never inside this call.
func (l *Loop) CallSoon(fn func()) Handle {
	l.only("CallSoon")
	if fn == nil {
		panic("loop: CallSoon with a nil callback")
	}
	return Handle{l, Normal, l.lanes[Normal].push(fn)}
}

// CallSoonPriority is CallSoon into the lane of p.
func (l *Loop) CallSoonPriority(p Priority, fn func()) Handle {
	l.only("CallSoonPriority")
	if fn == nil {
		panic("loop: CallSoonPriority with a nil callback")
	}
	if p >= lanes {
		panic("loop: CallSoonPriority with an unknown priority")
	}
	return Handle{l, p, l.lanes[p].push(fn)}
}

// Cancel takes the callback back and tells whether it was still to run.
func (h Handle) Cancel() bool {
	if h.l == nil || h.l.owner.Load() == closedOwner {
		return false
	}
	h.l.only("Handle.Cancel")
	return h.l.lanes[h.lane].cancel(h.seq)
}

// waiting is how many callbacks will run.
func (l *Loop) waiting() int {
	n := 0
	for i := range l.lanes {
		n += l.lanes[i].waiting()
	}
	return n
}

// ready is how many entries are in the lanes, cancelled ones included.
func (l *Loop) ready() int {
	return l.lanes[Normal].len() + l.lanes[High].len() + l.lanes[Low].len()
}

// runReady runs a turn's share of each lane. What a panic has left of the last
// turn's shares is run first.
func (l *Loop) runReady() {
	high, normal, low := &l.lanes[High], &l.lanes[Normal], &l.lanes[Low]
	if high.len() == 0 && low.len() == 0 { // nearly always
		if normal.head == normal.end {
			n := min(normal.len(), askEvery)
			l.sinceAsk += n
			normal.take(n)
		}
		l.runLane(normal)
		return
	}
	if high.head == high.end && normal.head == normal.end && low.head == low.end {
		l.share()
	}
	l.runLane(high)
	l.runLane(normal)
	l.runLane(low)
}

// share settles how many of each lane a turn runs.
func (l *Loop) share() {
	high, normal, low := l.lanes[High].len(), l.lanes[Normal].len(), l.lanes[Low].len()
	keptForLow := min(low, lowShare)
	high = min(high, askEvery-min(normal, normalShare)-keptForLow)
	normal = min(normal, askEvery-high-keptForLow)
	low = min(low, askEvery-high-normal)
	l.sinceAsk += high + normal + low
	l.lanes[High].take(high)
	l.lanes[Normal].take(normal)
	l.lanes[Low].take(low)
}

func (l *Loop) runLane(q *lane) {
	if q.head != q.end {
		l.serving = q
		q.run()
		l.serving = nil
	}
}

// lane is a queue of callbacks and coroutines: a ring in which an entry's
// sequence number is both its place and its generation, so that a handle needs
// no table.
type lane struct {
	ring       []entry // its length is a power of two
	head, tail uint64  // sequence numbers of the first and of the next to come
	end        uint64  // where the batch under way ends; the head if there is none

	cancelled int    // entries in the ring that will not run
	skipped   uint64 // cancelled ones that have left it
}

// entry is a callback or a coroutine; neither once it was cancelled.
type entry struct {
	fn func()
	co Coroutine
}

// len is how many entries there are, cancelled ones included.
func (q *lane) len() int { return int(q.tail - q.head) }

// waiting is how many entries will run.
func (q *lane) waiting() int { return q.len() - q.cancelled }

// ran is how many entries have been run.
func (q *lane) ran() uint64 { return q.head - q.skipped }

func (q *lane) at(seq uint64) *entry { return &q.ring[seq&uint64(len(q.ring)-1)] }

// push adds a callback. The place's co is nil: whoever takes an entry out
// clears it.
func (q *lane) push(fn func()) uint64 {
	if q.tail-q.head == uint64(len(q.ring)) {
		q.grow()
	}
	seq := q.tail
	q.at(seq).fn = fn
	q.tail++
	return seq
}

func (q *lane) pushCoroutine(co Coroutine) {
	if q.tail-q.head == uint64(len(q.ring)) {
		q.grow()
	}
	q.at(q.tail).co = co
	q.tail++
}

// grow is not inlined: every push would make room for its variables.
//
//go:noinline
func (q *lane) grow() {
	bigger := lane{ring: make([]entry, max(64, 2*len(q.ring)))}
	for seq := q.head; seq != q.tail; seq++ {
		*bigger.at(seq) = *q.at(seq)
	}
	q.ring = bigger.ring
}

// keepRing is how many places an empty lane may keep after a flood.
const keepRing = 1 << 14

// trim gives back the memory of a flood. Only for an empty lane; sequence
// numbers go on, so that old handles stay stale.
func (q *lane) trim() {
	if len(q.ring) > keepRing {
		q.ring = nil
	}
}

// take makes the next n the batch to run.
func (q *lane) take(n int) { q.end = q.head + uint64(n) }

// run takes out and runs the batch. The head moves before the call: a callback
// that panics has been run. A coroutine may take more out by itself, and move
// the end.
func (q *lane) run() {
	for q.head != q.end {
		at := q.at(q.head)
		fn := at.fn
		if fn == nil {
			if co := q.pop().co; co != nil {
				co.Resume()
			}
			continue
		}
		at.fn = nil
		q.head++
		fn()
	}
}

// pop takes out the first; it may be one that was cancelled.
func (q *lane) pop() entry {
	at := q.at(q.head)
	e := *at
	*at = entry{}
	q.head++
	if e.fn == nil && e.co == nil {
		q.cancelled--
		q.skipped++
	}
	return e
}

func (q *lane) cancel(seq uint64) bool {
	if seq-q.head >= q.tail-q.head { // also where seq < head
		return false
	}
	at := q.at(seq)
	if at.fn == nil {
		return false
	}
	at.fn = nil
	q.cancelled++
	return true
}
