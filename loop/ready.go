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

// ready is how many callbacks are in the lanes.
func (l *Loop) ready() int {
	n := 0
	for i := range l.lanes {
		n += l.lanes[i].len()
	}
	return n
}

// forgotten is how many callbacks are in the lanes and were not cancelled.
func (l *Loop) forgotten() int {
	n := 0
	for i := range l.lanes {
		for q := &l.lanes[i]; q.len() > 0; {
			if q.pop() != nil {
				n++
			}
		}
	}
	return n
}

// runReady runs a turn's share of each lane.
func (l *Loop) runReady() {
	high, normal, low := l.lanes[High].len(), l.lanes[Normal].len(), l.lanes[Low].len()
	if high+low == 0 { // nearly always
		normal = min(normal, askEvery)
		l.sinceAsk += normal
		l.lanes[Normal].run(normal)
		return
	}
	keptForLow := min(low, lowShare)
	high = min(high, askEvery-min(normal, normalShare)-keptForLow)
	normal = min(normal, askEvery-high-keptForLow)
	low = min(low, askEvery-high-normal)
	l.sinceAsk += high + normal + low
	l.lanes[High].run(high)
	l.lanes[Normal].run(normal)
	l.lanes[Low].run(low)
}

// lane is a queue of callbacks: a ring in which a callback's sequence number
// is both its place and its generation, so that a handle needs no table.
type lane struct {
	ring       []func() // its length is a power of two
	head, tail uint64   // sequence numbers of the first and of the next to come
}

func (q *lane) len() int { return int(q.tail - q.head) }

func (q *lane) push(fn func()) uint64 {
	if q.tail-q.head == uint64(len(q.ring)) {
		q.grow()
	}
	seq := q.tail
	q.ring[seq&uint64(len(q.ring)-1)] = fn
	q.tail++
	return seq
}

func (q *lane) grow() {
	bigger := make([]func(), max(64, 2*len(q.ring)))
	for seq := q.head; seq != q.tail; seq++ {
		bigger[seq&uint64(len(bigger)-1)] = q.ring[seq&uint64(len(q.ring)-1)]
	}
	q.ring = bigger
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

// run takes out and calls the first n. The head moves before the call: a
// callback that panics has been run.
func (q *lane) run(n int) {
	for end := q.head + uint64(n); q.head != end; {
		if fn := q.pop(); fn != nil {
			fn()
		}
	}
}

// pop takes out the first; nil if it was cancelled.
func (q *lane) pop() func() {
	at := &q.ring[q.head&uint64(len(q.ring)-1)]
	fn := *at
	*at = nil
	q.head++
	return fn
}

func (q *lane) cancel(seq uint64) bool {
	if seq-q.head >= q.tail-q.head { // also where seq < head
		return false
	}
	at := &q.ring[seq&uint64(len(q.ring)-1)]
	pending := *at != nil
	*at = nil
	return pending
}
