package wheel

// chunkLen makes a chunk four cache lines.
const chunkLen = 15

type chunk struct {
	entries [chunkLen]entry
	n       uint32
	next    uint32 // one-based
	_       [8]byte
}

// slot is a chain of chunks in the order of adding.
type slot struct {
	head, tail uint32 // one-based; 0 when empty
	earliest   int64
}

const (
	chunkPageBits = 6
	chunkPageLen  = 1 << chunkPageBits
)

// chunks is a slab in pages without pointers: the garbage collector does not
// look inside, and growing moves nothing.
type chunks struct {
	pages []*[chunkPageLen]chunk
	free  uint32 // one-based
}

func (s *chunks) at(ref uint32) *chunk {
	return &s.pages[(ref-1)>>chunkPageBits][(ref-1)&(chunkPageLen-1)]
}

func (s *chunks) take() uint32 {
	if s.free == 0 {
		base := uint32(len(s.pages)) << chunkPageBits
		page := new([chunkPageLen]chunk)
		for i := range page {
			page[i].next = base + uint32(i) + 2
		}
		page[chunkPageLen-1].next = 0
		s.pages = append(s.pages, page)
		s.free = base + 1
	}
	ref := s.free
	c := s.at(ref)
	s.free = c.next
	c.n, c.next = 0, 0
	return ref
}

func (s *chunks) release(ref uint32) {
	s.at(ref).next = s.free
	s.free = ref
}

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

// drain empties a slot into each, in order.
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
