package coro

import (
	"slices"

	"github.com/spindleloop/spindle/internal/goid"
)

// OnGoroutine runs fn on another goroutine, and waits for it.
func OnGoroutine(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

// BeginFresh begins the tasks that have not begun, one after the other, each until it
// first waits. It returns their number. It is for a loop that is being closed.
func (s *Scheduler) BeginFresh() (n int) {
	s.use(goid.LockOf(goid.Current()))
	for i := range s.lanes {
		lane := &s.lanes[i]
		for range lane.bodies.len() {
			n++
			s.RunNested(s.begin(lane))
		}
	}
	return n
}

// RunReady continues coroutines that are ready, one after the other, each until it waits.
// A coroutine continues only under the thread lock that it was made under: here if that
// is the caller's, on another goroutine if it was made under none, and otherwise not at
// all. It is for a loop that is being closed.
func (s *Scheduler) RunReady(all ...*Coro) {
	here := goid.LockOf(goid.Current())
	run := func(under goid.ThreadLock) {
		s.use(under)
		for _, c := range all {
			if c.own.lock == s.threads.now && c.state == Ready {
				s.RunNested(c)
			}
		}
	}
	run(here)
	if here.Locked() && slices.ContainsFunc(all, func(c *Coro) bool { return c.own.lock == 0 }) {
		OnGoroutine(func() { run(goid.ThreadLock{}) })
		s.use(here)
	}
}

// EndIdle ends the coroutines of all pools that can be ended here: an abandoned coroutine
// would never be collected. Those that were made under another thread lock than the
// caller's end on another goroutine if they were made under none. Otherwise they stay.
func (s *Scheduler) EndIdle() {
	s.use(goid.LockOf(goid.Current()))
	s.endIdle()
	if s.threads.now != 0 && len(s.threads.others[0].idle) > 0 {
		here := s.threads.locks[s.threads.now]
		OnGoroutine(func() {
			s.use(goid.ThreadLock{})
			s.endIdle()
		})
		s.use(here)
	}
}

// endIdle ends the coroutines of the pool.
func (s *Scheduler) endIdle() {
	idle := s.idle
	s.idle = nil
	for _, c := range idle {
		s.ending = c
		s.RunNested(c)
	}
	s.ending = nil
}
