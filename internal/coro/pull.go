package coro

import "unsafe"

// pull is a coroutine of package iter, used as a place where one goroutine is suspended.
// Its next and its yield are the same switch: the caller is suspended in the pull, and
// the goroutine that was suspended there continues. They must be called alternately, by
// any goroutines. So a coroutine can switch to any other one directly.
type pull struct {
	next, yield Switch
	entered     bool   // next was called last, and yield comes next
	lock        lockID // the thread lock it was made under: it can be used only under that
}

// directSwitch returns yield as a Switch. An empty struct is passed in no register and on
// no stack, so next and yield have the same calling convention.
func directSwitch(yield func(struct{}) bool) Switch { return *(*Switch)(unsafe.Pointer(&yield)) }

// swap returns the switch that suspends the caller in p and continues the goroutine that
// is suspended there. The caller makes the switch at once.
func (p *pull) swap() Switch {
	if p.entered = !p.entered; p.entered {
		return p.next
	}
	return p.yield
}
