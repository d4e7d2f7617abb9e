// Package wheel keeps a loop's timers: adding and cancelling take constant
// time, and they come due in exact order of their deadlines, to the
// nanosecond, equal ones in the order they were added.
//
// # Shape
//
// Time is cut into ticks of 131 µs. Six levels of 256 slots hold the ticks to
// come; a timer's level is the highest byte in which its tick differs from the
// current one, so everything on a level comes before anything on the next, and
// no timer moves more than five times. When a tick begins, its slot is sorted
// into the run list; timers added to the tick that is running go into a small
// heap beside it.
//
//	slots  (ticks to come)  ──tick begins──▶  run (sorted)  ─┐
//	add to the running tick ────────────────▶  heap         ─┴─▶ Due
//
// What costs is not instructions but cache misses that wait for each other.
// So a slot is a chain of 256-byte chunks of {deadline, node, generation},
// without pointers, read front to back; the function lives in a node of its
// own, and cancelling touches only that node. The entry a cancelled timer
// leaves behind is dead: it is dropped when its slot is next read, or by a
// sweep that takes one chunk per cancel once there are two dead for each living.
//
// A Wheel is for one goroutine.
package wheel

import "math/bits"

const (
	tickBits  = 17 // 131,072 ns
	levelBits = 8
	slotCount = 1 << levelBits
	levels    = 6 // 17 + 6×8 bits: more than an int64 of nanoseconds

	// sweepSlack is how many dead entries are not worth a sweep.
	sweepSlack = 1024
)

// Ref names a timer. The zero Ref names none.
type Ref uint64

func makeRef(idx, gen uint32) Ref { return Ref(gen)<<32 | Ref(idx) }

func (r Ref) index() uint32      { return uint32(r) }
func (r Ref) generation() uint32 { return uint32(r >> 32) }

// entry is what the slots, the run list and the heap hold of a timer.
type entry struct {
	when     int64
	idx, gen uint32
}

// Wheel is a set of timers. Make one with New.
type Wheel struct {
	cur  int64 // the running tick; slots hold only later ones
	live int   // timers that may still come due
	dead int   // entries of cancelled ones, wherever they are

	slots [levels * slotCount]slot
	used  [levels][slotCount / 64]uint64 // which slots are not empty

	run   []entry // the running tick, sorted; runAt is the next
	runAt int
	spare []entry // sorting space
	heap  laterHeap

	firing int64   // deadline limit of the phase under way, else below all
	late   []entry // added during a phase and due within it: for the next one

	nodes  nodes
	chunks chunks
	sweep  sweeper
}

// notFiring is a limit below every deadline.
const notFiring = -1 << 63

// New returns an empty wheel whose clock stands at now.
func New(now int64) *Wheel {
	return &Wheel{cur: now >> tickBits, firing: notFiring}
}

// Len is the number of timers that may still come due.
func (w *Wheel) Len() int { return w.live }

// Add sets a timer. A deadline in the past is due at the next phase.
func (w *Wheel) Add(when int64, fn func()) Ref {
	idx, gen := w.nodes.take(fn)
	w.live++
	e := entry{when, idx, gen}
	if when <= w.firing {
		w.late = append(w.late, e)
	} else {
		w.place(e)
	}
	return makeRef(idx, gen)
}

func (w *Wheel) place(e entry) {
	tick := e.when >> tickBits
	if tick <= w.cur {
		w.heap.push(e)
		return
	}
	level := (bits.Len64(uint64(tick^w.cur)) - 1) / levelBits
	digit := int(tick>>(level*levelBits)) & (slotCount - 1)
	w.used[level][digit/64] |= 1 << (digit % 64)
	w.chunks.push(&w.slots[level*slotCount+digit], e)
}

// Cancel takes a timer back and tells whether it was still to come.
func (w *Wheel) Cancel(r Ref) bool {
	if !w.nodes.release(r) {
		return false
	}
	w.live--
	w.dead++
	if w.dead > 2*w.live+sweepSlack {
		w.sweepChunk()
	}
	return true
}

// Begin opens a phase: until End, Due hands out what is due at now. What is
// added during the phase is not due before the next one, whatever its deadline.
func (w *Wheel) Begin(now int64) { w.firing = now }

// End closes the phase.
func (w *Wheel) End() {
	w.firing = notFiring
	for _, e := range w.late {
		w.place(e)
	}
	w.late = w.late[:0]
}

// Due takes out the next due timer; its function is nil if there is none.
func (w *Wheel) Due() (fn func(), when int64) {
	for {
		e, fromHeap, ok := w.front()
		if !ok {
			if !w.advance() {
				return nil, 0
			}
			continue
		}
		if e.when > w.firing {
			return nil, 0
		}
		w.dropFront(fromHeap)
		fn := w.nodes.at(e.idx).fn
		if w.nodes.release(makeRef(e.idx, e.gen)) {
			w.live--
			return fn, e.when
		}
		w.dead--
	}
}

// Next is the earliest deadline. After a cancel it may name one that is gone:
// never later than the true one.
func (w *Wheel) Next() (when int64, ok bool) {
	if w.live == 0 {
		return 0, false
	}
	for {
		e, fromHeap, ok := w.front()
		if !ok {
			break
		}
		if w.nodes.alive(e) {
			return e.when, true
		}
		w.dropFront(fromHeap)
		w.dead--
	}
	level, digit, ok := w.nextSlot()
	if !ok {
		return 0, false
	}
	return w.slots[level*slotCount+digit].earliest, true
}

// front is the first entry of the running tick. Of equal deadlines the run
// list's was added first: the tick had not begun.
func (w *Wheel) front() (e entry, fromHeap, ok bool) {
	switch {
	case w.runAt < len(w.run):
		e = w.run[w.runAt]
		if len(w.heap.items) > 0 && w.heap.items[0].when < e.when {
			return w.heap.items[0].entry, true, true
		}
		return e, false, true
	case len(w.heap.items) > 0:
		return w.heap.items[0].entry, true, true
	}
	return entry{}, false, false
}

func (w *Wheel) dropFront(fromHeap bool) {
	if fromHeap {
		w.heap.pop()
	} else {
		w.runAt++
	}
}

// advance begins the next tick that has timers and is not past the phase's
// limit, or moves to the limit if there is none.
func (w *Wheel) advance() bool {
	limit := w.firing >> tickBits
	if w.cur >= limit {
		return false
	}
	level, digit, ok := w.nextSlot()
	shift := level * levelBits
	begin := (w.cur>>shift&^(slotCount-1) | int64(digit)) << shift
	if !ok || begin > limit {
		w.cur = limit
		return false
	}
	w.cur = begin
	w.run, w.runAt = w.run[:0], 0
	at := level*slotCount + digit
	w.used[level][digit/64] &^= 1 << (digit % 64)
	w.sweep.leave(at)
	w.chunks.drain(&w.slots[at], func(e entry) {
		switch {
		case !w.nodes.alive(e):
			w.dead--
		case level == 0 || e.when>>tickBits == begin:
			w.run = append(w.run, e)
		default:
			w.place(e)
		}
	})
	w.sortRun()
	return true
}

// nextSlot is the first slot that is not empty. Within a level every slot in
// use lies ahead of the current digit.
func (w *Wheel) nextSlot() (level, digit int, ok bool) {
	for level := range w.used {
		for i, word := range w.used[level] {
			if word != 0 {
				return level, i*64 + bits.TrailingZeros64(word), true
			}
		}
	}
	return 0, 0, false
}
