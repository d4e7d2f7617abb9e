package sock

import "github.com/spindleloop/spindle/loop"

// errands are callbacks in the queue of a loop, each with its own place there, of
// which is known what to do when the loop is closed.
type errands struct {
	l    *loop.Loop
	list []errand
	done int    // of these, the first ones
	next func() // runs the first that is not; made once
}

type errand struct {
	fn     func()
	handle loop.Handle
}

func (e *errands) init(l *loop.Loop) {
	e.l = l
	e.next = e.run
}

func (e *errands) add(fn func()) { e.list = append(e.list, errand{fn, e.l.CallSoon(e.next)}) }

func (e *errands) empty() bool { return e.done == len(e.list) }

func (e *errands) run() {
	fn := e.list[e.done].fn
	e.list[e.done] = errand{}
	if e.done++; 2*e.done >= len(e.list) { // so that it never grows for ever
		n := copy(e.list, e.list[e.done:])
		clear(e.list[n:])
		e.list, e.done = e.list[:n], 0
	}
	fn()
}

// hurry runs the first now.
func (e *errands) hurry() {
	e.list[e.done].handle.Cancel()
	e.run()
}

// drop takes all of them back.
func (e *errands) drop() {
	for _, each := range e.list[e.done:] {
		each.handle.Cancel()
	}
	e.list, e.done = nil, 0
}
