package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// crowd is tasks that wait in order and are told nothing but to go on. Loop
// goroutine only.
type crowd struct {
	lot spindle.Lot
	n   int
}

func (c *crowd) wait(ctx context.Context, what string) error {
	c.n++
	err := c.lot.Wait(ctx, what)
	if err != nil {
		c.n--
	}
	return err
}

func (c *crowd) wake(n int) int {
	n = c.lot.Wake(n)
	c.n -= n
	return n
}

// line is tasks that wait in order, each to give or to get a value. Whoever is
// in it can be served: one whose wait was cancelled has left. Loop goroutine
// only, except where a bridge guards it.
type line[T any] struct {
	first, last *waiter[T]
	n           int

	// quit is called in place of leaving when a wait is cancelled. Nil but for a
	// Cond.
	quit func(*waiter[T]) bool

	// holder is the task that holds the lock that is waited for. Nil but for locks.
	holder *spindle.TaskRef

	// Waiters that are not in use, so that waiting allocates nothing.
	spare  *waiter[T]
	spares int
}

// keepSpare is how many waiters a line keeps after a rush.
const keepSpare = 64

// waiter is a place in a line.
type waiter[T any] struct {
	prev, next *waiter[T]
	line       *line[T] // nil once it was served or has left
	value      T        // to give, or what it was given
	waker      spindle.Waker
	side       *side      // of a channel that it uses
	sel        *selection // that it is a case of
	index      int        // among the cases
	quitted    bool       // it is cancelled, and waits for what it must have
	far        *far       // of an Inbox

	abort func() bool // in place of leaving the line; nil for nearly all
}

// Abort leaves the line.
func (w *waiter[T]) Abort() bool {
	if w.abort != nil {
		return w.abort()
	}
	return w.leave()
}

// Holder returns the task that holds the lock w waits for, for the task tree.
func (w *waiter[T]) Holder() spindle.TaskRef {
	if w.line == nil || w.line.holder == nil {
		return spindle.TaskRef{}
	}
	return *w.line.holder
}

// wait has the task of waker wait in the line until it is served; v is to give.
func (l *line[T]) wait(ctx context.Context, waker spindle.Waker, what string, v T) (T, error) {
	w := l.join(waker, v, nil)
	err := waker.Park(ctx, what, w)
	v = w.value
	l.put(w)
	return v, err
}

// join puts the task of waker in line; it must park next, and then put the waiter
// back.
func (l *line[T]) join(waker spindle.Waker, v T, s *side) *waiter[T] {
	w := l.get()
	w.value, w.side, w.waker = v, s, waker
	l.push(w)
	return w
}

func (l *line[T]) get() *waiter[T] {
	w := l.spare
	if w == nil {
		w = new(waiter[T])
		if l.quit != nil {
			w.abort = func() bool { return l.quit(w) }
		}
		return w
	}
	l.spare, w.next = w.next, nil
	l.spares--
	return w
}

func (l *line[T]) put(w *waiter[T]) {
	var zero T
	w.value, w.side = zero, nil
	if l.spares < keepSpare {
		l.spare, w.next = w, l.spare
		l.spares++
	}
}

func (l *line[T]) push(w *waiter[T]) {
	w.line, w.prev = l, l.last
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
	l.n++
}

// leave takes w out of its line and tells whether it was in one.
func (w *waiter[T]) leave() bool {
	l := w.line
	if l == nil {
		return false
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	w.line, w.prev, w.next = nil, nil, nil
	l.n--
	return true
}

// take takes the first out, to be served; nil if there is none. It must then be
// woken.
func (l *line[T]) take() *waiter[T] {
	w := l.first
	if w == nil {
		return nil
	}
	w.leave()
	if w.sel != nil {
		w.sel.choose(w.index)
	}
	return w
}

// give serves the first with a value, if there is one.
func (l *line[T]) give(v T) bool {
	w := l.take()
	if w == nil {
		return false
	}
	w.value = v
	w.waker.Wake(nil)
	return true
}

// fail ends the waits of all.
func (l *line[T]) fail(err error) {
	for w := l.take(); w != nil; w = l.take() {
		w.waker.Wake(err)
	}
}

// failSide ends the waits of those that use one side.
func (l *line[T]) failSide(s *side, err error) {
	for w := l.first; w != nil; {
		next := w.next
		if w.side == s {
			w.leave()
			if w.sel != nil {
				w.sel.choose(w.index)
				next = l.first // its neighbours may have left with it
			}
			w.waker.Wake(err)
		}
		w = next
	}
}
