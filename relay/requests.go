package relay

// running is a request with its handler's context.
type running interface {
	request() *Request
	stop() // ends the context; from any goroutine
}

// requests is the requests that run, by their calls: a hash table with lists. A map took four
// times as long, mostly to hash the subject for replies; here the ID is enough to find the
// list. Guarded by the service's mutex.
type requests struct {
	lists []running // their number is a power of two; linked by Request.next
	n     int
}

func (t *requests) list(id uint64) *running {
	id ^= id >> 32 // slot and generation
	return &t.lists[id&uint64(len(t.lists)-1)]
}

// find returns the request of a call; nil if it does not run.
func (t *requests) find(key callKey) running {
	if t.n == 0 {
		return nil
	}
	for v := *t.list(key.id); v != nil; v = v.request().next {
		if v.request().key() == key {
			return v
		}
	}
	return nil
}

// add adds a request.
func (t *requests) add(v running) {
	if t.n == len(t.lists) {
		t.grow()
	}
	t.n++
	r := v.request()
	l := t.list(r.ID)
	r.next, *l = *l, v
}

func (t *requests) grow() {
	old := *t
	t.lists = make([]running, max(2*len(old.lists), 16))
	for v := range old.all {
		r := v.request()
		l := t.list(r.ID)
		r.next, *l = *l, v
	}
}

// remove takes a request out.
func (t *requests) remove(r *Request) {
	t.n--
	l := t.list(r.ID)
	for (*l).request() != r {
		l = &(*l).request().next
	}
	*l, r.next = r.next, nil
}

// all calls yield for each request, which yield may move to another list.
func (t *requests) all(yield func(v running) bool) {
	for _, v := range t.lists {
		for v != nil {
			next := v.request().next
			if !yield(v) {
				return
			}
			v = next
		}
	}
}
