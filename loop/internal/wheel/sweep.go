package wheel

import "math/bits"

// sweeper is the position of the sweep for dead entries. The sweep visits the slots
// in order, one chunk at a time, so that no single Cancel takes long.
type sweeper struct {
	slot       int
	prev, next uint32 // chunks of slot: the last one kept, and the next to sweep
}

// slotDrained forgets the position if it is in slot: the chunks of slot are free now.
func (s *sweeper) slotDrained(slot int) {
	if s.slot == slot {
		s.prev, s.next = 0, 0
	}
}

// sweepChunk drops the dead entries of one chunk. It moves the live entries into the
// chunk before it if they fit, so that chunks stay at least half full.
func (w *Wheel) sweepChunk() {
	s := &w.sweep
	if s.next == 0 && !w.sweepNextSlot() {
		return
	}
	ref := s.next
	c := w.chunks.at(ref)
	s.next = c.next
	kept := uint32(0)
	for _, e := range c.entries[:c.n] {
		if w.nodes.alive(e) {
			c.entries[kept] = e
			kept++
		}
	}
	w.dead -= int(c.n - kept)
	c.n = kept
	if s.prev != 0 {
		if before := w.chunks.at(s.prev); before.n+kept <= chunkLen {
			copy(before.entries[before.n:], c.entries[:kept])
			before.n += kept
			c.n = 0
		}
	}
	if c.n == 0 {
		w.unlink(ref, c.next)
	} else {
		s.prev = ref
	}
}

// unlink removes an empty chunk from the slot that is being swept.
func (w *Wheel) unlink(ref, next uint32) {
	s := &w.sweep
	sl := &w.slots[s.slot]
	if s.prev == 0 {
		sl.head = next
	} else {
		w.chunks.at(s.prev).next = next
	}
	if sl.tail == ref {
		sl.tail = s.prev
	}
	w.chunks.release(ref)
	if sl.head == 0 {
		*sl = slot{}
		level, digit := s.slot/slotCount, s.slot%slotCount
		w.used[level][digit/64] &^= 1 << (digit % 64)
	}
}

// sweepNextSlot moves the sweep to the next slot that is not empty, wrapping around at
// the end. It reports whether there is one.
func (w *Wheel) sweepNextSlot() bool {
	s := &w.sweep
	const words = levels * slotCount / 64
	at := (s.slot + 1) % (levels * slotCount)
	word, mask := at/64, ^uint64(0)<<(at%64)
	for range words + 1 {
		if set := w.used[word/(slotCount/64)][word%(slotCount/64)] & mask; set != 0 {
			s.slot = word*64 + bits.TrailingZeros64(set)
			s.prev, s.next = 0, w.slots[s.slot].head
			return true
		}
		word, mask = (word+1)%words, ^uint64(0)
	}
	return false
}
