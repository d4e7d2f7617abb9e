package wheel

// chunkLen makes a chunk four cache lines.
const chunkLen = 15

// chunk is a part of a slot's chain.
type chunk struct {
	entries [chunkLen]entry
	n       uint32
	next    uint32 // one-based
	_       [8]byte
}

// slot is a chain of chunks, with its entries in the order in which they were added.
type slot struct {
	head, tail uint32 // one-based; 0 when empty
	earliest   int64
}

const (
	chunkPageBits = 6
	chunkPageLen  = 1 << chunkPageBits
)

// chunks is a slab of chunks in pages without pointers: the garbage collector does
// not scan it, and growing moves nothing. The free chunks are on a stack. A linked
// list through the chunks would cost a cache miss for each one taken.
type chunks struct {
	pages []*[chunkPageLen]chunk
	free  []uint32 // one-based
}

func (s *chunks) at(ref uint32) *chunk {
	return &s.pages[(ref-1)>>chunkPageBits][(ref-1)&(chunkPageLen-1)]
}

func (s *chunks) take() uint32 {
	if len(s.free) == 0 {
		base := uint32(len(s.pages)) << chunkPageBits
		s.pages = append(s.pages, new([chunkPageLen]chunk))
		for i := range uint32(chunkPageLen) {
			s.free = append(s.free, base+chunkPageLen-i)
		}
	}
	last := len(s.free) - 1
	ref := s.free[last]
	s.free = s.free[:last]
	c := s.at(ref)
	c.n, c.next = 0, 0
	return ref
}

func (s *chunks) release(ref uint32) { s.free = append(s.free, ref) }

func (s *chunks) push(sl *slot, e entry) {
	if sl.tail == 0 {
		ref := s.take()
		sl.head, sl.tail, sl.earliest = ref, ref, e.when
	}
	c := s.at(sl.tail)
	if c.n == chunkLen {
		ref := s.take()
		c.next = ref
		sl.tail = ref
		c = s.at(ref)
	}
	c.entries[c.n] = e
	c.n++
	sl.earliest = min(sl.earliest, e.when)
}

// drain empties a slot and calls each for its entries in order.
func (s *chunks) drain(sl *slot, each func(entry)) {
	ref := sl.head
	*sl = slot{}
	for ref != 0 {
		c := s.at(ref)
		for i := range c.entries[:c.n] {
			each(c.entries[i])
		}
		next := c.next
		s.release(ref)
		ref = next
	}
}
