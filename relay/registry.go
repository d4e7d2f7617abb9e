package relay

// registry holds the waiters of a Caller by the IDs of their calls. An ID is the number of a
// slot and the slot's generation, so that a slot is used again but an ID is not. Guarded by
// the Caller's mutex.
type registry struct {
	slots []slot
	free  []uint32 // slots without a waiter
	n     int      // waiters
}

type slot struct {
	w          *waiter // nil if the slot is free
	generation uint32
	last       ending // of the call that had the slot before
}

// add takes a slot for w and returns the ID of its call.
func (r *registry) add(w *waiter) uint64 {
	at := uint32(len(r.slots))
	if last := len(r.free) - 1; last >= 0 {
		at, r.free = r.free[last], r.free[:last]
	} else {
		r.slots = append(r.slots, slot{})
	}
	s := &r.slots[at]
	s.generation++
	s.w = w
	r.n++
	return uint64(s.generation)<<32 | uint64(at)
}

// find returns the waiter of a call. It is nil if the call has ended or never was, or has
// another token.
func (r *registry) find(id, token uint64) *waiter {
	at := uint32(id)
	if int(at) >= len(r.slots) || r.slots[at].generation != uint32(id>>32) {
		return nil
	}
	if w := r.slots[at].w; w != nil && w.req.Token == token {
		return w
	}
	return nil
}

// remove frees the slot of a call that has ended.
func (r *registry) remove(id uint64, e ending) {
	at := uint32(id)
	s := &r.slots[at]
	s.w, s.last = nil, e
	r.free = append(r.free, at)
	r.n--
}

// past returns what is known of a call that is not in the registry.
func (r *registry) past(id uint64) (known bool, e ending) {
	at, generation := uint32(id), uint32(id>>32)
	if int(at) >= len(r.slots) {
		return false, waiting
	}
	s := &r.slots[at]
	switch {
	case generation == 0 || generation > s.generation, generation == s.generation && s.w != nil: // the last: it has another token
		return false, waiting
	case generation == s.generation, generation == s.generation-1 && s.w != nil:
		return true, s.last
	}
	return true, waiting // too long ago to know
}
