package loop

// priorities is the number of lanes.
const priorities = 3

// Of the phaseSize callbacks of a turn, the lower lanes get at least these if they have
// work: a flood of High callbacks slows them but never stops them.
const (
	normalShare = 16
	lowShare    = 4
)

// waiting returns the number of entries in the lanes that will run.
func (l *Loop) waiting() int {
	n := 0
	for i := range l.lanes {
		n += l.lanes[i].waiting()
	}
	return n
}

// ready returns the number of entries in the lanes, cancelled ones included.
func (l *Loop) ready() int {
	return l.lanes[Normal].len() + l.lanes[High].len() + l.lanes[Low].len()
}

// ran returns the number of entries that have run. The head of a lane counts those that
// left it, so running an entry updates no counter.
func (l *Loop) ran() uint64 {
	n := uint64(0)
	for i := range l.lanes {
		n += l.lanes[i].ran()
	}
	return n
}

// trimLanes frees the memory that a flood of callbacks took. It is for a loop with
// nothing ready.
func (l *Loop) trimLanes() {
	for i := range l.lanes {
		l.lanes[i].trim()
	}
}

// runReady runs a turn's share of each lane. If a panic ended the last turn early, it
// first runs the rest of that turn's shares.
func (l *Loop) runReady() {
	high, normal, low := &l.lanes[High], &l.lanes[Normal], &l.lanes[Low]
	if high.len() == 0 && low.len() == 0 { // nearly always
		if normal.head == normal.end {
			n := min(normal.len(), phaseSize)
			l.sincePoll += n
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

// share decides how many entries of each lane a turn runs.
func (l *Loop) share() {
	high, normal, low := l.lanes[High].len(), l.lanes[Normal].len(), l.lanes[Low].len()
	keptForLow := min(low, lowShare)
	high = min(high, phaseSize-min(normal, normalShare)-keptForLow)
	normal = min(normal, phaseSize-high-keptForLow)
	low = min(low, phaseSize-high-normal)
	l.sincePoll += high + normal + low
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

// lane is a queue of callbacks and coroutines. It is a ring in which the sequence number
// of an entry is both its place and its generation, so that handles need no table.
type lane struct {
	ring       []entry // its length is a power of two
	head, tail uint64  // sequence numbers of the first entry and of the next to come
	end        uint64  // where the running batch ends; the head if there is none

	cancelled int    // entries in the ring that will not run
	skipped   uint64 // cancelled entries that have left the ring
}

// entry is a callback or a coroutine. A cancelled entry is neither.
type entry struct {
	fn func()
	co coroutine
}

// len returns the number of entries, cancelled ones included.
func (q *lane) len() int { return int(q.tail - q.head) }

// waiting returns the number of entries that will run.
func (q *lane) waiting() int { return q.len() - q.cancelled }

// ran returns the number of entries that have run.
func (q *lane) ran() uint64 { return q.head - q.skipped }

func (q *lane) at(seq uint64) *entry { return &q.ring[seq&uint64(len(q.ring)-1)] }

// full reports whether the lane must grow before an entry is added.
func (q *lane) full() bool { return q.tail-q.head == uint64(len(q.ring)) }

// push adds a callback.
func (q *lane) push(fn func()) uint64 {
	if q.full() {
		q.grow()
	}
	return q.append(fn)
}

// append adds a callback to a lane that is not full. The co of the place is nil, because
// removing an entry clears it.
func (q *lane) append(fn func()) uint64 {
	seq := q.tail
	q.at(seq).fn = fn
	q.tail++
	return seq
}

func (q *lane) pushCoroutine(co coroutine) {
	if q.full() {
		q.grow()
	}
	q.at(q.tail).co = co
	q.tail++
}

// grow is not inlined, because its variables would enlarge the frame of every push.
//
//go:noinline
func (q *lane) grow() {
	bigger := lane{ring: make([]entry, max(64, 2*len(q.ring)))}
	for seq := q.head; seq != q.tail; seq++ {
		*bigger.at(seq) = *q.at(seq)
	}
	q.ring = bigger.ring
}

// keepRing is the number of places that an empty lane may keep after a flood.
const keepRing = 1 << 14

// trim frees the memory of a flood. It is for an empty lane. Sequence numbers continue,
// so that old handles stay stale.
func (q *lane) trim() {
	if len(q.ring) > keepRing {
		q.ring = nil
	}
}

// take makes the next n entries the batch to run.
func (q *lane) take(n int) { q.end = q.head + uint64(n) }

// run removes the entries of the batch and runs them. The head moves before the call: a
// callback that panics has been run. A coroutine may remove further entries itself, and
// move the end.
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

// pop removes the first entry, which may be a cancelled one.
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

// coroutine is an entry of a lane that can be resumed. Unlike a callback it can be
// recognized: a coroutine that is about to wait can switch to the next one without going
// back to the loop.
type coroutine = interface {
	// Resume runs the coroutine until it waits.
	Resume()
}
