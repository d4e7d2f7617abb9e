package spindle

import (
	"iter"
	"unsafe"
)

// seat is where a goroutine sits that does not run. Whoever wants it to go on takes its
// seat, by one switch, and has to be called from there in turn. Nobody has to go back
// first to who called him: any coroutine can give control to any other.
//
// It is a coroutine of package iter, whose two functions are one and the same switch,
// to be called alternately.
type seat struct {
	next, yield Switch
	turned      bool // next was called last, and yield has its turn
}

// init has a new goroutine sit there, to run fn. When that ends, it gives
// control to who sits there then.
func (s *seat) init(fn func()) {
	s.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		// An empty struct is passed in no register and on no stack: to whoever calls
		// them, next and yield are the same.
		s.yield = *(*Switch)(unsafe.Pointer(&yield))
		fn()
	})
}

// take is the switch by which the caller takes the seat.
func (s *seat) take() Switch {
	if s.turned = !s.turned; s.turned {
		return s.next
	}
	return s.yield
}
