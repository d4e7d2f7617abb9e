package simkernel

import "time"

// event is something that will happen: do is called with what it is about.
// A function and three words instead of a closure: a run has millions of them.
type event struct {
	do   func(on any, n, m uint64)
	on   any
	n, m uint64
}

// queue holds what is to happen, by time; at one time, in the order in which it
// was put there. The heap moves small rows without pointers; the events
// themselves stay where they are.
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

// next is when the first is to happen.
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
