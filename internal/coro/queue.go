package coro

// queue is a ring of tasks.
type queue struct {
	ring       []Body
	head, tail uint
}

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
	q.head++
	return b
}
