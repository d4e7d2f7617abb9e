package wheel

import "math/bits"

const (
	nodePageBits = 10
	nodePageLen  = 1 << nodePageBits
	hotLen       = 64
)

// node is a timer's function, and a generation that grows when the node is
// released, so that every Ref and entry naming it goes stale. They share a
// cache line: whoever reads the generation mostly wants the function next.
type node struct {
	fn  func()
	gen uint32
}

// nodes is a slab in pages, so that growing moves nothing and stalls nobody.
//
// Which free node is taken decides how many cache misses a timer costs. One
// that was released just now is still in the cache: the last few are kept on a
// stack. The others are taken page by page in the order of their addresses: a
// plain stack would, after a million timers have fired in the order of their
// deadlines, hand out nodes in random order for ever.
type nodes struct {
	pages []*[nodePageLen]node
	hot   [hotLen]uint32
	hots  int

	free []nodePageFree // one for each page
	open []uint32       // pages that have free nodes and are not in use below
	word uint64         // free nodes that are taken next: bits from base on
	base uint32
}

// nodePageFree has a bit for each free node of a page.
type nodePageFree struct {
	words  [nodePageLen / 64]uint64
	listed bool // in open
}

func (s *nodes) at(idx uint32) *node {
	return &s.pages[idx>>nodePageBits][idx&(nodePageLen-1)]
}

func (s *nodes) alive(e entry) bool { return s.at(e.idx).gen == e.gen }

func (s *nodes) take(fn func()) (idx, gen uint32) {
	if s.hots > 0 {
		s.hots--
		idx = s.hot[s.hots]
	} else {
		if s.word == 0 {
			s.refill()
		}
		idx = s.base + uint32(bits.TrailingZeros64(s.word))
		s.word &= s.word - 1
	}
	n := s.at(idx)
	n.fn = fn
	return idx, n.gen
}

// refill finds the next free nodes, in the page in use if it has more.
func (s *nodes) refill() {
	for {
		if len(s.open) == 0 {
			s.grow()
		}
		page := s.open[len(s.open)-1]
		free := &s.free[page]
		for i, word := range free.words {
			if word != 0 {
				free.words[i] = 0
				s.word, s.base = word, page<<nodePageBits+uint32(i)*64
				return
			}
		}
		free.listed = false
		s.open = s.open[:len(s.open)-1]
	}
}

func (s *nodes) grow() {
	page := new([nodePageLen]node)
	free := nodePageFree{listed: true}
	for i := range page {
		page[i].gen = 1 // so that the zero Ref names nothing
	}
	for i := range free.words {
		free.words[i] = ^uint64(0)
	}
	s.open = append(s.open, uint32(len(s.pages)))
	s.pages = append(s.pages, page)
	s.free = append(s.free, free)
}

// release frees the node that r names, if it still names one.
func (s *nodes) release(r Ref) bool {
	idx := r.index()
	if int(idx>>nodePageBits) >= len(s.pages) {
		return false
	}
	n := s.at(idx)
	if n.gen != r.generation() {
		return false
	}
	n.gen++
	n.fn = nil
	if s.hots < hotLen {
		s.hot[s.hots] = idx
		s.hots++
		return true
	}
	page := idx >> nodePageBits
	free := &s.free[page]
	free.words[idx&(nodePageLen-1)/64] |= 1 << (idx % 64)
	if !free.listed {
		free.listed = true
		s.open = append(s.open, page)
	}
	return true
}
