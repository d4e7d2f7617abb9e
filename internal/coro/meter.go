package coro

import (
	"time"

	"github.com/spindleloop/spindle/internal/probe"
)

// meter measures how tasks spend their time, while an inspector is attached. A scheduler
// without one has a nil pointer to test at each switch, and no other cost. Loop goroutine
// only.
type meter struct {
	on *Coro         // has control; nil if that is the loop
	at time.Duration // since when
}

// account is how the task of a coroutine has spent its time.
type account struct {
	probe.Account
	of    *meter        // the one that measured it; another one begins anew
	woken time.Duration // when the last wait ended
}

// PeekRunning is Running for a goroutine other than the loop's, which may see the result
// of another moment.
//
//go:norace
func (s *Scheduler) PeekRunning() *Coro { return s.running }

// PeekBody is Body in the same way.
//
//go:norace
func (c *Coro) PeekBody() Body { return c.body }

// SetMeter turns accounting on or off.
func (s *Scheduler) SetMeter(on bool) {
	switch {
	case !on:
		s.meter = nil
	case s.meter == nil:
		m := &meter{on: s.running, at: s.loop.Internal().Kernel().Mono()}
		if c := m.on; c != nil {
			c.account = &account{of: m}
			c.account.Began, c.account.Changed = m.at, m.at
		}
		s.meter = m
	}
}

// Metered reports whether accounting is on.
func (s *Scheduler) Metered() bool { return s.meter != nil }

// switched notes that control goes to another coroutine, or to the loop. The clock is read
// once per switch. When a wait ended is taken to be the later one of the last switch and
// the last poll, which is right to within a callback.
//
//go:noinline
func (m *meter) switched(s *Scheduler, to *Coro) {
	now := s.loop.Internal().Kernel().Mono()
	if from := m.on; from != nil && from.account != nil && from.account.of == m {
		from.account.Busy += now - m.at
		from.account.Changed = now
	}
	m.on, m.at = nil, now
	if to.body == nil {
		return
	}
	m.on = to
	a := to.account
	if a == nil || a.of != m {
		to.account = &account{of: m}
		to.account.Began, to.account.Changed = now, now
		to.account.Whole = to.state == Idle
		return
	}
	a.Switches++
	woken := min(max(a.woken, a.Changed), now)
	if a.woken != 0 {
		a.Waiting += woken - a.Changed
	}
	a.Ready += now - woken
	a.Changed, a.woken = now, 0
}

// wake notes that the wait of c has ended.
func (m *meter) wake(s *Scheduler, c *Coro) {
	if a := c.account; a != nil {
		a.woken = max(m.at, s.loop.Internal().TurnTime())
	}
}

// begin makes the account of c that of a new task.
func (m *meter) begin(s *Scheduler, c *Coro) {
	if m == nil {
		c.account = nil
		return
	}
	now := s.loop.Internal().Kernel().Mono()
	*c.account = account{of: m}
	c.account.Began, c.account.Changed, c.account.Whole = now, now, true
	if m.on == c { // it goes on with another task without a switch
		m.at = now
	}
}

// Account sets sum to how the task has spent its time until now. It reports false if
// accounting is off or has not seen the task yet.
func (c *Coro) Account(now time.Duration, sum *probe.Account) bool {
	a := c.account
	if a == nil || c.s.meter == nil || a.of != c.s.meter {
		return false
	}
	*sum = a.Account
	switch c.state {
	case Waiting:
		sum.Waiting += now - a.Changed
	case Ready:
		woken := max(a.woken, a.Changed)
		sum.Waiting += woken - a.Changed
		sum.Ready += now - woken
	case Running:
		if c.s.meter.on == c {
			sum.Busy += now - c.s.meter.at
		}
	}
	return true
}
