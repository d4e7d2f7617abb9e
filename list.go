package spindle

// node makes a task part of a list; the zero node is in none.
type node struct {
	prev, next *node
	t          *Task
}

// list is a queue of tasks, linked through nodes of theirs. The zero list is
// empty.
type list struct {
	root node
}

func (l *list) push(n *node, t *Task) {
	if l.root.next == nil {
		l.root.next, l.root.prev = &l.root, &l.root
	}
	n.t = t
	n.prev, n.next = l.root.prev, &l.root
	n.prev.next, n.next.prev = n, n
}

func (l *list) front() *Task {
	if l.root.next == nil || l.root.next == &l.root {
		return nil
	}
	return l.root.next.t
}

// all are the tasks of the list as it is now.
func (l *list) all() (tasks []*Task) {
	if l.root.next == nil {
		return nil
	}
	for n := l.root.next; n != &l.root; n = n.next {
		tasks = append(tasks, n.t)
	}
	return tasks
}

// remove takes n out of its list, if it is in one.
func (n *node) remove() bool {
	if n.next == nil {
		return false
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	return true
}

// queue is a ring of tasks.
type queue struct {
	ring       []*Task
	head, tail uint
}

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) push(t *Task) {
	if q.tail-q.head == uint(len(q.ring)) {
		bigger := make([]*Task, max(16, 2*len(q.ring)))
		for i := q.head; i != q.tail; i++ {
			bigger[i&uint(len(bigger)-1)] = q.ring[i&uint(len(q.ring)-1)]
		}
		q.ring = bigger
	}
	q.ring[q.tail&uint(len(q.ring)-1)] = t
	q.tail++
}

func (q *queue) pop() *Task {
	at := &q.ring[q.head&uint(len(q.ring)-1)]
	t := *at
	*at = nil
	q.head++
	return t
}
