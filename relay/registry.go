package relay

// registry holds the waiters of a Caller by the IDs of their calls. An ID is the number of a
// slot and the slot's generation, so that a slot is used again but an ID is not. Guarded by
// the Caller's mutex.
type registry struct {
	slots []slot
	free  uint32 // the first free slot plus one; 0 for none
	n     int    // waiters
}

type slot struct {
	w          *waiter // nil if the slot is free
	generation uint32
	packed     uint32 // next and last, to save space
}

// next returns the next slot in the list of free slots.
func (s *slot) next() uint32 { return s.packed >> 3 }

// last returns how the call of the previous generation ended.
func (s *slot) last() ending { return ending(s.packed & 7) }

func (s *slot) set(next uint32, last ending) { s.packed = next<<3 | uint32(last) }

// add takes a slot for w and returns the ID of its call.
func (r *registry) add(w *waiter) uint64 {
	if r.free == 0 {
		r.slots = append(r.slots, slot{})
		r.free = uint32(len(r.slots))
	}
	at := r.free - 1
	s := &r.slots[at]
	r.free = s.next()
	s.set(0, s.last())
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
	s.w = nil
	s.set(r.free, e)
	r.free = at + 1
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
		return true, s.last()
	}
	return true, waiting // too long ago to know
}

// ending is how a call ended.
type ending uint8

const (
	waiting  ending = iota // it has not
	replied                // by a Reply or a Failure
	expired                // by its deadline
	canceled               // by its scope, or because its stream was closed
	failed                 // by an error on this side
)

var endingNames = [...]string{"waiting", "replied", "timed out", "canceled", "failed"}

func (e ending) String() string { return endingNames[e] }
