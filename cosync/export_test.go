package cosync

import "math"

// The state of objects that have no Statistics of their own, for the tests.

func (b *Barrier) Statistics() Statistics {
	b.checkReader("Barrier")
	return Statistics{Capacity: b.parties, Waiting: b.waiting.n}
}

func (c *Cond) Statistics() Statistics {
	c.checkReader("Cond")
	return Statistics{Waiting: c.waiting.n}
}

func (e *Event) Statistics() Statistics {
	e.checkReader("Event")
	return Statistics{Waiting: e.waiting.n}
}

func (m *Mutex) Statistics() Statistics {
	m.checkReader("Mutex")
	s := Statistics{Capacity: 1, Waiting: m.waiting.n}
	if m.held {
		s.Used = 1
	}
	return s
}

func (m *RWMutex) Statistics() Statistics {
	m.checkReader("RWMutex")
	s := Statistics{Used: m.readers, Capacity: math.MaxInt, Waiting: m.waiting.n}
	if m.writing {
		s.Used = 1
	}
	return s
}

func (s *Sender[T]) Statistics() Statistics { return s.c.statistics() }
