package spindle

// Portable switching uses iter.Pull as its documentation describes it: only a
// coroutine itself calls its yield, and control returns to the goroutine that called
// its next. That goroutine is base, the driver of the loop or a coroutine that starts
// another one eagerly. A coroutine that would switch to another one names it in
// sched.next and yields; base resumes it. That takes two switches where a direct one
// would do.

// switchOf returns yield as a Switch.
func (s *sched) switchOf(yield func(struct{}) bool) Switch {
	if !s.portable {
		return directSwitch(yield)
	}
	return func() (struct{}, bool) { return struct{}{}, yield(struct{}{}) }
}

// handOver returns the switch from one coroutine to another.
func (s *sched) handOver(from, to *coro) Switch {
	switch s.base {
	case from:
		s.next = to
		return s.resumeAll
	case to:
		s.next = nil
	default:
		s.next = to
	}
	return from.seat.yield
}

// resumeEach resumes one coroutine after another until control is to stay with base.
func (s *sched) resumeEach() (struct{}, bool) {
	for s.next != nil {
		c := s.next
		s.next = nil
		c.seat.next()
	}
	return struct{}{}, true
}

// finishExit lets a coroutine end that runtime.Goexit has hit, and that has yielded
// from its last deferred function. The goroutine that resumes it exits too, so it is
// one made for this. A coroutine made on a locked thread can only be resumed there: it
// stays where it is.
func (s *sched) finishExit(exiting *seat) {
	if exiting.lock == 0 {
		aside(func() { exiting.next() })
	}
}
