package coro

// Portable switching uses iter.Pull as documented: only a coroutine itself calls its
// yield, and control returns to the goroutine that called its next. That goroutine is
// base: the driver of the loop, or a coroutine in a nested start. A coroutine that would
// switch to another one sets Scheduler.next and yields, and base resumes next. That takes
// two switches where a direct one would do.

// switchOf returns yield as a Switch.
func (s *Scheduler) switchOf(yield func(struct{}) bool) Switch {
	if !s.portable {
		return directSwitch(yield)
	}
	return func() (struct{}, bool) { return struct{}{}, yield(struct{}{}) }
}

// portableSwitch returns the switch from one coroutine to another.
func (s *Scheduler) portableSwitch(from, to *Coro) Switch {
	switch s.base {
	case from:
		s.next = to
		return s.resumeAll
	case to:
		s.next = nil
	default:
		s.next = to
	}
	return from.own.yield
}

// resumeEach resumes one coroutine after another until control is to stay with base.
func (s *Scheduler) resumeEach() (struct{}, bool) {
	for s.next != nil {
		c := s.next
		s.next = nil
		c.own.next()
	}
	return struct{}{}, true
}

// finishExit ends a coroutine that called runtime.Goexit and has yielded from its last
// deferred function. The goroutine that resumes it exits too, so it is one made for this.
// A coroutine that was made on a locked thread can be resumed only there, and stays
// suspended.
func (s *Scheduler) finishExit(exiting *pull) {
	if exiting.lock == 0 {
		OnGoroutine(func() { exiting.next() })
	}
}
