// Package wheel holds a loop's timers. Adding and cancelling take constant time.
// Timers come due in the exact order of their deadlines, to the nanosecond; timers
// with equal deadlines come due in the order in which they were added.
//
// # Structure
//
// Time is divided into ticks of 131 µs. Six levels of 256 slots hold the future
// ticks. A timer's level is the highest byte in which its tick differs from the
// current one. So every timer on a level is due before any timer on the next level,
// and no timer moves more than five times. When a tick begins, its slot is sorted
// into the run list. Timers added to the running tick go into a small heap.
//
//	slots  (future ticks)   ──tick begins──▶  run (sorted)  ─┐
//	add to the running tick ────────────────▶  heap         ─┴─▶ Due
//
// The cost of a timer is not its instructions but dependent cache misses. So a slot
// is a chain of 256-byte chunks of {deadline, node, generation}, without pointers,
// that is read front to back. The function is in a separate node, and Cancel touches
// only that node. The entry of a cancelled timer is dead. It is dropped when its slot
// is next read, or by a sweep. The sweep runs while there are more than two dead
// entries for each live one, and visits one chunk per Cancel.
//
// A Wheel is for one goroutine.
package wheel

import "math/bits"

const (
	tickBits  = 17 // 131,072 ns
	levelBits = 8
	slotCount = 1 << levelBits
	levels    = 6 // 17 + 6×8 bits: more than an int64 of nanoseconds

	// sweepSlack is the number of dead entries that are not worth a sweep.
	sweepSlack = 1024
)

// Ref identifies a timer. The zero Ref identifies none.
type Ref uint64

func makeRef(idx, gen uint32) Ref { return Ref(gen)<<32 | Ref(idx) }

func (r Ref) index() uint32      { return uint32(r) }
func (r Ref) generation() uint32 { return uint32(r >> 32) }

// entry stands for a timer in the slots, the run list and the heap.
type entry struct {
	when     int64
	idx, gen uint32
}

// Wheel is a set of timers. Make one with New.
type Wheel struct {
	cur  int64 // the running tick; slots hold only later ones
	live int   // pending timers
	dead int   // entries of cancelled timers, in any list

	slots [levels * slotCount]slot
	used  [levels][slotCount / 64]uint64 // a bit for each slot that is not empty

	run   []entry // the running tick, sorted
	runAt int     // the index of the next entry in run
	spare []entry // scratch space for sorting
	heap  tickHeap

	firing   int64   // deadline limit of the current phase, or notFiring
	deferred []entry // due in the current phase, but added during it: for the next phase

	nodes  nodes
	chunks chunks
	sweep  sweeper
}

// notFiring is a limit below every deadline.
const notFiring = -1 << 63

// New returns an empty wheel with its clock at now.
func New(now int64) *Wheel {
	return &Wheel{cur: now >> tickBits, firing: notFiring}
}

// Len returns the number of pending timers.
func (w *Wheel) Len() int { return w.live }

// Add adds a timer. A timer with a deadline in the past is due in the next phase.
func (w *Wheel) Add(when int64, fn func()) Ref {
	idx, gen := w.nodes.take(fn)
	w.live++
	e := entry{when, idx, gen}
	if when <= w.firing {
		w.deferred = append(w.deferred, e)
	} else {
		w.place(e)
	}
	return makeRef(idx, gen)
}

// place puts e into the slot of its tick, or into the heap if the tick has begun.
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

// Cancel removes a timer. It reports whether the timer was still pending.
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

// Begin starts a phase: until End, Due returns the timers that are due at now. A
// timer added during the phase is not due before the next phase, whatever its
// deadline.
func (w *Wheel) Begin(now int64) { w.firing = now }

// End ends the phase.
func (w *Wheel) End() {
	w.firing = notFiring
	for _, e := range w.deferred {
		w.place(e)
	}
	w.deferred = w.deferred[:0]
}

// Due removes the next due timer and returns it. The function is nil if no timer is
// due.
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

// Next returns the earliest deadline. After a Cancel it may return the deadline of a
// cancelled timer, which is never later than the true one.
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

// front returns the first entry of the running tick. If the run list and the heap
// have equal deadlines, the run list's timer was added first, before the tick began.
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

// advance begins the next tick that has timers and is within the phase's limit, and
// reports whether there is one. If there is none, it moves the wheel to the limit.
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
	w.sweep.slotDrained(at)
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

// nextSlot returns the first slot that is not empty. Within a level, every used slot
// is ahead of the current digit.
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
