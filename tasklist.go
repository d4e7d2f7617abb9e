package spindle

// node links a task into a taskList; the zero node is in none.
type node struct {
	prev, next *node
	t          *Task
}

// taskList is a queue of tasks, linked through their nodes. The zero taskList is empty.
type taskList struct {
	root node
}

func (l *taskList) push(n *node, t *Task) {
	if l.root.next == nil {
		l.root.next, l.root.prev = &l.root, &l.root
	}
	n.t = t
	n.prev, n.next = l.root.prev, &l.root
	n.prev.next, n.next.prev = n, n
}

func (l *taskList) front() *Task {
	if l.root.next == nil || l.root.next == &l.root {
		return nil
	}
	return l.root.next.t
}

// all returns the tasks that are in the list now.
func (l *taskList) all() (tasks []*Task) {
	if l.root.next == nil {
		return nil
	}
	for n := l.root.next; n != &l.root; n = n.next {
		if n.t != nil { // else it is the place of a walk
			tasks = append(tasks, n.t)
		}
	}
	return tasks
}

// pushAfter puts n behind the node at, which is in a list.
func (n *node) pushAfter(at *node) {
	n.prev, n.next = at, at.next
	n.prev.next, n.next.prev = n, n
}

// remove removes n from its list. It reports whether n was in one.
func (n *node) remove() bool {
	if n.next == nil {
		return false
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	return true
}
