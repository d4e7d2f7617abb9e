package wheel

const (
	nodePageBits = 10
	nodePageLen  = 1 << nodePageBits
)

// nodes is a slab in pages, so that growing moves nothing and stalls nobody. A
// node is a function and a generation that grows when the node is released, so
// that every Ref and entry naming it goes stale.
//
// Generations are kept apart from functions because most looks need only them,
// and sixteen fit a cache line. The free nodes are a stack of their own rather
// than a list through the nodes: taking one would have to wait for the cache
// miss of the one before.
type nodes struct {
	gens []*[nodePageLen]uint32
	fns  []*[nodePageLen]func()
	free []uint32
}

func (s *nodes) gen(idx uint32) *uint32 {
	return &s.gens[idx>>nodePageBits][idx&(nodePageLen-1)]
}

func (s *nodes) fn(idx uint32) *func() {
	return &s.fns[idx>>nodePageBits][idx&(nodePageLen-1)]
}

func (s *nodes) alive(e entry) bool { return *s.gen(e.idx) == e.gen }

func (s *nodes) take(fn func()) (idx, gen uint32) {
	if len(s.free) == 0 {
		s.grow()
	}
	last := len(s.free) - 1
	idx = s.free[last]
	s.free = s.free[:last]
	*s.fn(idx) = fn
	return idx, *s.gen(idx)
}

func (s *nodes) grow() {
	base := uint32(len(s.gens)) << nodePageBits
	gens := new([nodePageLen]uint32)
	for i := range gens {
		gens[i] = 1 // so that the zero Ref names nothing
		s.free = append(s.free, base+nodePageLen-1-uint32(i))
	}
	s.gens = append(s.gens, gens)
	s.fns = append(s.fns, new([nodePageLen]func()))
}

// release frees the node that r names, if it still names one.
func (s *nodes) release(r Ref) bool {
	idx := r.index()
	if int(idx>>nodePageBits) >= len(s.gens) {
		return false
	}
	gen := s.gen(idx)
	if *gen != r.generation() {
		return false
	}
	*gen++
	*s.fn(idx) = nil
	s.free = append(s.free, idx)
	return true
}
