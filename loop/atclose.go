package loopcore

import (
	"errors"
	"slices"
)

// AtClose is what Close does with a callback that has not run by then.
type AtClose uint8

const (
	// ReportAtClose reports the callback in Close's *loop.LostError. The callbacks
	// and jobs of users are of this kind.
	ReportAtClose AtClose = iota
	// DropAtClose drops the callback. It is for a sender that notices the end through
	// Done, or with the end of the object that the callback serves.
	DropAtClose
	// RunAtClose runs the callback during Close, while the loop can still be used. It
	// is for a receiver that must be notified in any case.
	RunAtClose
)

// CallSoon runs fn on the loop in a coming turn, in the Normal lane. Close treats fn as
// at says.
func (c *Loop) CallSoon(at AtClose, fn func()) {
	c.Only("CallSoon")
	if fn == nil {
		panic("loop: CallSoon with a nil callback")
	}
	if at == ReportAtClose {
		c.lanes[Normal].push(fn)
		return
	}
	c.lanes[Normal].pushCoroutine(at.entry(fn))
}

// entry returns fn as an entry of a lane. A function is one pointer, so the interface
// needs no memory of its own.
func (at AtClose) entry(fn func()) Coroutine {
	switch at {
	case DropAtClose:
		return dropAtClose(fn)
	case RunAtClose:
		return runAtClose(fn)
	}
	panic("loop: unknown AtClose")
}

// Callbacks that Close drops, and those that it runs.
type (
	dropAtClose func()
	runAtClose  func()
)

// Resume calls the callback.
func (fn dropAtClose) Resume() { fn() }

// Resume calls the callback.
func (fn runAtClose) Resume() { fn() }

// DrainAtClose runs the RunAtClose callbacks that have not run, and those that are added
// meanwhile. A panic in one of them is an error of Close. It is for methods LoopClosing
// (see PerLoop): Close calls it before the first of these, after each and at the end.
func (c *Loop) DrainAtClose() {
	c.Only("DrainAtClose")
	for !c.Guard(c.drainAtClose) {
		c.CloseError(c.Failure)
	}
}

func (c *Loop) drainAtClose() {
	if c.inbox.waiting.Load() {
		c.TakeInbox()
	}
	q := &c.lanes[Normal]
	for c.atCloseNext = max(c.atCloseNext, q.head); c.atCloseNext != q.tail; {
		at := q.at(c.atCloseNext)
		c.atCloseNext++ // before the call: it may panic
		if fn, ok := at.co.(runAtClose); ok {
			at.co = nil
			q.cancelled++
			fn()
		}
	}
}

// CloseError adds err to the errors that Close returns. For package loop.
func (c *Loop) CloseError(err error) {
	if err != nil {
		c.closeErrs = append(c.closeErrs, err)
	}
	c.Failure = nil
}

// BeginClose ends the values of PerLoop and closes the inbox. For package loop, which has
// entered the loop.
func (c *Loop) BeginClose() {
	c.closeValues()
	c.inbox.close()
	c.closeValues() // for what was posted meanwhile
}

// MarkClosed makes the loop a closed one and drops what is in its lanes. For package loop.
func (c *Loop) MarkClosed() {
	c.state.Store(closed)
	c.owner.Store(closedOwner)
	c.unregister()
	c.lanes = [priorities]lane{}
	c.watches.drop()
}

// EndClose closes the channel of Done and returns the errors of Close. For package loop.
func (c *Loop) EndClose() error {
	close(c.done)
	return errors.Join(c.closeErrs...)
}

// EachLeft calls fn with every callback and coroutine in the lanes. For package loop.
func (c *Loop) EachLeft(fn func(callback func(), co Coroutine)) {
	for i := range c.lanes {
		q := &c.lanes[i]
		for seq := q.head; seq != q.tail; seq++ {
			if e := q.at(seq); e.fn != nil || e.co != nil {
				fn(e.fn, e.co)
			}
		}
	}
}

// closeValues ends the values of PerLoop, the newest first, also those that are added
// meanwhile.
func (c *Loop) closeValues() {
	c.DrainAtClose()
	for len(c.values) > 0 {
		last := c.values[len(c.values)-1]
		c.Guard(func() {
			switch v := last.value.(type) {
			case interface{ LoopClosing() }:
				v.LoopClosing()
			case interface{ LoopClosing() error }:
				c.CloseError(v.LoopClosing())
			}
		})
		c.CloseError(c.Failure)
		c.values = slices.DeleteFunc(c.values, func(v value) bool { return v.key == last.key })
		c.DrainAtClose()
	}
}
