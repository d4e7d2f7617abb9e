package loop

import "github.com/spindleloop/spindle/internal/goid"

// identity is the goroutine that may use a loop: 0 while any goroutine may, closedOwner
// when none may any more. The owner writes it, and any goroutine may read it.
//
// The accesses are plain on purpose. A reader only asks whether it is the owner itself,
// and sees its own writes in order; nothing is published through the word. Atomics would
// cost a tenth of a coroutine switch. Worse, the race detector would take them for
// synchronization: every goroutine that reads the owner would seem ordered after the
// loop, and real races with the loop would go unreported. Hence go:norace.
type identity struct{ g uintptr }

//go:norace
func (i *identity) Load() uintptr { return i.g }

//go:norace
func (i *identity) Store(g uintptr) { i.g = g }

// closedOwner is the owner of a closed loop. No goroutine has this identity.
const closedOwner = 1

// States of a loop.
const (
	idle uint32 = iota
	running
	closed
)

// runner returns the goroutine that runs the loop, 0 if none does. Any goroutine may call it.
func (l *Loop) runner() uintptr {
	if owner := l.owner.Load(); owner > closedOwner {
		return owner
	}
	return 0
}

// runsElsewhere reports whether the loop is running on a goroutine other than the caller's.
// Any goroutine may call it.
func (l *Loop) runsElsewhere() bool {
	owner := l.owner.Load()
	return owner > closedOwner && owner != goid.Current()
}

// only panics unless the caller may use the loop now.
func (l *Loop) only(op string) {
	if owner := l.owner.Load(); owner != 0 && (owner == closedOwner || !goid.Here(owner)) {
		l.refuse(op)
	}
}

// refuse is as short as it is so that only can be inlined.
func (l *Loop) refuse(op string) {
	if l.state.Load() == closed {
		panic("loop: " + op + " on a closed loop")
	}
	panic("loop: " + op + " called from a goroutine that is not the loop's; use Post")
}

// isRunning reports whether the loop is running. Any goroutine may call it.
func (l *Loop) isRunning() bool { return l.state.Load() == running }

// isClosed reports whether the loop is closed. Any goroutine may call it.
func (l *Loop) isClosed() bool { return l.state.Load() == closed }

// enter makes the caller the owner of the loop, for op.
func (l *Loop) enter(op string) {
	switch {
	case l.tryEnter():
	case l.isClosed():
		panic("loop: " + op + " on a closed loop")
	case l.Owns():
		panic("loop: " + op + " called from a callback of the same loop")
	default:
		panic("loop: " + op + " on a loop that another goroutine runs; use Post")
	}
}

// tryEnter makes the caller the owner of an idle loop, which is running then. It reports
// whether the loop was idle.
func (l *Loop) tryEnter() bool {
	if !l.state.CompareAndSwap(idle, running) {
		return false
	}
	l.own()
	l.failure = nil
	return true
}

// own makes the caller the owner of a running loop.
func (l *Loop) own() {
	g := goid.Current()
	l.entered = goid.LockOf(g)
	l.owner.Store(g)
	if fn := l.onEntry; fn != nil {
		l.onEntry = nil
		fn()
	}
}

// leave makes the loop idle again.
func (l *Loop) leave() {
	l.ended = nil
	l.owner.Store(0)
	l.state.Store(idle)
}
