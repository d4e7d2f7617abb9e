package coro

// queue is a ring of tasks. The memory of a peak is given back when the queue is empty.
type queue struct {
	ring       []Body
	head, tail uint
}

// maxKept is the size of the largest ring that is kept while the queue is empty.
const maxKept = 1024

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) push(b Body) {
	if q.tail-q.head == uint(len(q.ring)) {
		bigger := make([]Body, max(16, 2*len(q.ring)))
		for i := q.head; i != q.tail; i++ {
			bigger[i&uint(len(bigger)-1)] = q.ring[i&uint(len(q.ring)-1)]
		}
		q.ring = bigger
	}
	q.ring[q.tail&uint(len(q.ring)-1)] = b
	q.tail++
}

func (q *queue) pop() Body {
	at := &q.ring[q.head&uint(len(q.ring)-1)]
	b := *at
	*at = nil
	if q.head++; q.head == q.tail && len(q.ring) > maxKept {
		*q = queue{}
	}
	return b
}
