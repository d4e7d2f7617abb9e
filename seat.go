package spindle

import "unsafe"

// seat is where a goroutine sits that does not run. Whoever wants it to go on takes its
// seat, by one switch, and has to be called from there in turn. Nobody has to go back
// first to who called him: any coroutine can give control to any other.
//
// It is a coroutine of package iter, whose two functions are one and the same switch,
// to be called alternately.
type seat struct {
	next, yield Switch
	turned      bool   // next was called last, and yield has its turn
	lock        lockID // how the thread was locked when it was made: it can only be taken under that
}

// directSwitch is yield as a Switch. An empty struct is passed in no register and on
// no stack: next and yield have one and the same calling convention.
func directSwitch(yield func(struct{}) bool) Switch { return *(*Switch)(unsafe.Pointer(&yield)) }

// take is the switch by which the caller takes the seat.
func (s *seat) take() Switch {
	if s.turned = !s.turned; s.turned {
		return s.next
	}
	return s.yield
}
