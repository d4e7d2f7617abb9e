package loopcore

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
	co Coroutine
}

// len returns the number of entries, cancelled ones included.
func (q *lane) len() int { return int(q.tail - q.head) }

// waiting returns the number of entries that will run.
func (q *lane) waiting() int { return q.len() - q.cancelled }

// ran returns the number of entries that have run.
func (q *lane) ran() uint64 { return q.head - q.skipped }

func (q *lane) at(seq uint64) *entry { return &q.ring[seq&uint64(len(q.ring)-1)] }

// push adds a callback. The co of the place is nil, because removing an entry clears it.
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
