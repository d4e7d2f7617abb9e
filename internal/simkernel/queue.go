package simkernel

import "time"

// event is a scheduled call of do. It is a function and three words, not a closure, because
// a run has millions of events.
type event struct {
	do   func(on any, n, m uint64)
	on   any
	n, m uint64
}

// queue holds events in the order of their times, and of put for equal times. The heap
// moves small rows without pointers. The events themselves do not move.
type queue struct {
	heap   []row
	events []event
	free   []uint32
	seq    uint64
}

type row struct {
	at  time.Duration
	seq uint64
	idx uint32
}

func (a row) before(b row) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (q *queue) put(at time.Duration, e event) {
	var idx uint32
	if last := len(q.free) - 1; last >= 0 {
		idx = q.free[last]
		q.free = q.free[:last]
		q.events[idx] = e
	} else {
		idx = uint32(len(q.events))
		q.events = append(q.events, e)
	}
	q.seq++
	q.heap = append(q.heap, row{at, q.seq, idx})
	q.up(len(q.heap) - 1)
}

// next returns the time of the first event.
func (q *queue) next() (time.Duration, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

func (q *queue) take() event {
	idx := q.heap[0].idx
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	if last > 1 {
		q.down(0)
	}
	e := q.events[idx]
	q.events[idx] = event{}
	q.free = append(q.free, idx)
	return e
}

func (q *queue) up(i int) {
	moved := q.heap[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !moved.before(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = moved
}

func (q *queue) down(i int) {
	moved := q.heap[i]
	for {
		first := 4*i + 1
		if first >= len(q.heap) {
			break
		}
		least := first
		for child := first + 1; child < min(first+4, len(q.heap)); child++ {
			if q.heap[child].before(q.heap[least]) {
				least = child
			}
		}
		if !q.heap[least].before(moved) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = moved
}
