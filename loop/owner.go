package loopcore

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

// Owner returns the goroutine that runs the loop, 0 if none does. Any goroutine may call it.
func (c *Loop) Owner() uintptr {
	if owner := c.owner.Load(); owner > closedOwner {
		return owner
	}
	return 0
}

// SetOwner makes g the goroutine that may use the loop. A coroutine is a goroutine of its
// own: the code that resumes a coroutine sets it as the owner.
func (c *Loop) SetOwner(g uintptr) { c.owner.Store(g) }

// Owns reports whether the caller runs on the loop. Any goroutine may call it.
func (c *Loop) Owns() bool { return c.owner.Load() == goid.Current() }

// Foreign reports whether the loop is running on a goroutine other than the caller's,
// which then must not use anything that belongs to the loop. It is the check for calls
// that only the loop's goroutine may make, and costs next to nothing. Where other
// goroutines may call as well, use Owns, which is exact for them too.
func (c *Loop) Foreign() bool {
	owner := c.owner.Load()
	return owner > closedOwner && !goid.Here(owner)
}

// runsElsewhere is Foreign for calls that any goroutine may make.
func (c *Loop) runsElsewhere() bool {
	owner := c.owner.Load()
	return owner > closedOwner && owner != goid.Current()
}

// Only panics unless the caller may use the loop now.
func (c *Loop) Only(op string) {
	if owner := c.owner.Load(); owner != 0 && (owner == closedOwner || !goid.Here(owner)) {
		c.refuse(op)
	}
}

// refuse is as short as it is so that Only can be inlined.
func (c *Loop) refuse(op string) {
	if c.state.Load() == closed {
		panic("loop: " + op + " on a closed loop")
	}
	panic("loop: " + op + " called from a goroutine that is not the loop's; use Post")
}

// Running reports whether the loop is running. Any goroutine may call it.
func (c *Loop) Running() bool { return c.state.Load() == running }

// Closed reports whether the loop is closed. Any goroutine may call it.
func (c *Loop) Closed() bool { return c.state.Load() == closed }

// TryEnter makes the caller the owner of an idle loop, which is running then. It reports
// whether the loop was idle. For package loop.
func (c *Loop) TryEnter() bool {
	if !c.state.CompareAndSwap(idle, running) {
		return false
	}
	c.Own()
	c.Failure = nil
	return true
}

// Own makes the caller the owner of a running loop. For package loop.
func (c *Loop) Own() {
	g := goid.Current()
	c.entered = goid.LockOf(g)
	c.owner.Store(g)
	if fn := c.onEntry; fn != nil {
		c.onEntry = nil
		fn()
	}
}

// Leave makes the loop idle again. For package loop.
func (c *Loop) Leave() {
	c.owner.Store(0)
	c.state.Store(idle)
}

// Lend calls fn with the caller as the owner and the present time as TurnTime. It is for a
// loop that is suspended in Wait of a simulated kernel: nothing else uses the loop meanwhile.
func (c *Loop) Lend(fn func()) {
	owner, now := c.owner.Load(), c.now
	defer func() {
		c.owner.Store(owner)
		c.now = now
	}()
	c.owner.Store(goid.Current())
	c.ReadClock()
	fn()
}

// Entered returns how the goroutine that runs the loop was locked to its thread when it
// began to. A callback that changes the lock must restore it before it returns.
func (c *Loop) Entered() goid.ThreadLock { return c.entered }

// OnEntry calls fn once, when a goroutine next begins to run the loop. It replaces the
// function of an earlier call.
func (c *Loop) OnEntry(fn func()) { c.onEntry = fn }
