package wheel

import "math/bits"

const (
	nodePageBits = 10
	nodePageLen  = 1 << nodePageBits
	recentLen    = 64
)

// node holds a timer's function and a generation. Releasing the node increments the
// generation, which makes every Ref and entry for it stale. The two share a cache
// line, because a reader of the generation usually needs the function next.
type node struct {
	fn  func()
	gen uint32
}

// nodes is a slab of nodes in pages, so that growing it moves nothing and no Add
// stalls.
//
// The choice of the free node decides how many cache misses a timer costs. A node
// that was just released is still in the cache, so the most recent ones are kept on a
// stack. The others are taken page by page in the order of their addresses. A plain
// stack of all free nodes would return them in random order from the moment that a
// million timers have fired in the order of their deadlines.
type nodes struct {
	pages   []*[nodePageLen]node
	recent  [recentLen]uint32 // a stack of the nodes released most recently
	recents int               // its length

	free []nodePageFree // one for each page
	open []uint32       // pages that may have free nodes; refill uses the last one
	word uint64         // the free nodes to take next: bits from base on
	base uint32
}

// nodePageFree has a bit for each free node of a page.
type nodePageFree struct {
	words  [nodePageLen / 64]uint64
	inOpen bool // the page is in nodes.open
}

func (s *nodes) at(idx uint32) *node {
	return &s.pages[idx>>nodePageBits][idx&(nodePageLen-1)]
}

func (s *nodes) alive(e entry) bool { return s.at(e.idx).gen == e.gen }

func (s *nodes) take(fn func()) (idx, gen uint32) {
	if s.recents > 0 {
		s.recents--
		idx = s.recent[s.recents]
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

// refill fills word with the next free nodes, from the current page if it has more.
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
		free.inOpen = false
		s.open = s.open[:len(s.open)-1]
	}
}

func (s *nodes) grow() {
	page := new([nodePageLen]node)
	free := nodePageFree{inOpen: true}
	for i := range page {
		page[i].gen = 1 // so that the zero Ref matches no node
	}
	for i := range free.words {
		free.words[i] = ^uint64(0)
	}
	s.open = append(s.open, uint32(len(s.pages)))
	s.pages = append(s.pages, page)
	s.free = append(s.free, free)
}

// release frees the node that r identifies. It reports whether r was still valid.
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
	if s.recents < recentLen {
		s.recent[s.recents] = idx
		s.recents++
		return true
	}
	page := idx >> nodePageBits
	free := &s.free[page]
	free.words[idx&(nodePageLen-1)/64] |= 1 << (idx % 64)
	if !free.inOpen {
		free.inOpen = true
		s.open = append(s.open, page)
	}
	return true
}
