package cosync

// buffer holds the values of a queue and defines their order.
type buffer[T any] interface {
	push(T)
	pop() T
	len() int
}

// ring is a queue of values, first in, first out. It grows as needed.
type ring[T any] struct {
	slots []T // the length is a power of two
	head  uint
	n     int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+uint(r.n))&uint(len(r.slots)-1)] = v
	r.n++
}

// pop removes the oldest value. The ring must not be empty.
func (r *ring[T]) pop() T {
	at := &r.slots[r.head&uint(len(r.slots)-1)]
	v := *at
	var zero T
	*at = zero
	r.head++
	r.n--
	return v
}

func (r *ring[T]) len() int { return r.n }

func (r *ring[T]) grow() {
	bigger := make([]T, max(8, 2*len(r.slots)))
	for i := range r.n {
		bigger[i] = r.slots[(r.head+uint(i))&uint(len(r.slots)-1)]
	}
	r.slots, r.head = bigger, 0
}

// stack is a buffer in which the newest value comes first.
type stack[T any] struct{ values []T }

func (s *stack[T]) push(v T) { s.values = append(s.values, v) }
func (s *stack[T]) len() int { return len(s.values) }

func (s *stack[T]) pop() T {
	last := len(s.values) - 1
	v := s.values[last]
	var zero T
	s.values[last] = zero
	s.values = s.values[:last]
	return v
}

// priorityHeap is a buffer in which the least value comes first: a binary heap. Package
// container/heap would allocate for every value.
type priorityHeap[T any] struct {
	less func(a, b T) bool
	heap []heapItem[T]
	seq  uint64
}

// heapItem is a value and its rank among equal values.
type heapItem[T any] struct {
	value T
	seq   uint64
}

func (r *priorityHeap[T]) len() int { return len(r.heap) }

func (r *priorityHeap[T]) push(v T) {
	r.seq++
	r.heap = append(r.heap, heapItem[T]{v, r.seq})
	for i := len(r.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !r.before(i, parent) {
			return
		}
		r.heap[i], r.heap[parent] = r.heap[parent], r.heap[i]
		i = parent
	}
}

func (r *priorityHeap[T]) pop() T {
	v := r.heap[0].value
	last := len(r.heap) - 1
	r.heap[0] = r.heap[last]
	r.heap[last] = heapItem[T]{}
	r.heap = r.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if r.before(child, least) {
				least = child
			}
		}
		if least == i {
			return v
		}
		r.heap[i], r.heap[least] = r.heap[least], r.heap[i]
		i = least
	}
}

func (r *priorityHeap[T]) before(i, j int) bool {
	a, b := &r.heap[i], &r.heap[j]
	if r.less(a.value, b.value) {
		return true
	}
	return !r.less(b.value, a.value) && a.seq < b.seq
}
