package wheel

// sortRun sorts the run list by deadline and keeps equal deadlines in order. All
// deadlines are within one tick, so two passes of a radix sort over the bits below a
// tick sort the list in linear time.
func (w *Wheel) sortRun() {
	if len(w.run) <= 48 {
		insertionSort(w.run)
		return
	}
	if cap(w.spare) < len(w.run) {
		w.spare = make([]entry, cap(w.run))
	}
	w.spare = w.spare[:len(w.run)]
	radixPass(w.spare, w.run, 0)
	radixPass(w.run, w.spare, radixBits)
}

const radixBits = (tickBits + 1) / 2

func radixPass(dst, src []entry, shift uint) {
	const mask = 1<<radixBits - 1
	var offset [mask + 1]uint32
	for i := range src {
		offset[src[i].when>>shift&mask]++
	}
	sum := uint32(0)
	for i, n := range offset {
		offset[i] = sum
		sum += n
	}
	for _, e := range src {
		d := e.when >> shift & mask
		dst[offset[d]] = e
		offset[d]++
	}
}

func insertionSort(a []entry) {
	for i := 1; i < len(a); i++ {
		e := a[i]
		j := i
		for j > 0 && a[j-1].when > e.when {
			a[j] = a[j-1]
			j--
		}
		a[j] = e
	}
}

// tickHeap is a 4-ary heap of the timers added to the running tick. The sequence
// number keeps equal deadlines in order, which a heap alone does not.
type tickHeap struct {
	items []heapItem
	seq   uint64
}

type heapItem struct {
	entry
	seq uint64
}

func (a heapItem) before(b heapItem) bool {
	return a.when < b.when || a.when == b.when && a.seq < b.seq
}

func (h *tickHeap) push(e entry) {
	h.seq++
	it := heapItem{e, h.seq}
	h.items = append(h.items, it)
	i := len(h.items) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !it.before(h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		i = parent
	}
	h.items[i] = it
}

func (h *tickHeap) pop() {
	last := len(h.items) - 1
	it := h.items[last]
	h.items = h.items[:last]
	if last == 0 {
		return
	}
	i := 0
	for {
		first := i*4 + 1
		if first >= last {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, last); c++ {
			if h.items[c].before(h.items[least]) {
				least = c
			}
		}
		if it.before(h.items[least]) {
			break
		}
		h.items[i] = h.items[least]
		i = least
	}
	h.items[i] = it
}
