package spindle

import "github.com/spindleloop/spindle/loop"

// Hook is a function that waits for a future's result: Then returns it.
type Hook struct {
	hook   *hook
	handle loop.Handle // of one that came when there was a result
}

// Cancel takes the function back, and tells whether it was still to be called.
func (h Hook) Cancel() bool {
	if h.hook == nil {
		return h.handle.Cancel()
	}
	return h.hook.cancel()
}

// hooks are functions to be called once, in the order in which they came.
type hooks struct{ first, last *hook }

type hook struct {
	fn         func()
	of         *hooks // nil once it was called or taken back
	prev, next *hook
	handle     loop.Handle // once the loop is to call it
}

func (hs *hooks) add(fn func()) Hook {
	h := &hook{fn: fn, of: hs, prev: hs.last}
	if hs.last != nil {
		hs.last.next = h
	} else {
		hs.first = h
	}
	hs.last = h
	return Hook{hook: h}
}

// take takes all of them out, in order.
func (hs *hooks) take() (all []*hook) {
	for h := hs.first; h != nil; h = h.next {
		h.of = nil
		all = append(all, h)
	}
	*hs = hooks{}
	return all
}

// call has the loop call all of them.
func (hs *hooks) call(l *loop.Loop) {
	for _, h := range hs.take() {
		h.handle = l.CallSoon(h.fn)
	}
}

func (h *hook) cancel() bool {
	hs := h.of
	if hs == nil {
		return h.handle.Cancel()
	}
	h.of = nil
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		hs.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		hs.last = h.prev
	}
	return true
}
