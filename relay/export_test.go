package relay

// Loops returns how many loops the caller knows.
func (c *Caller) Loops() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.deadlines)
}

// SkipItems makes the caller of a stream count n items that were never sent.
func (s *Stream) SkipItems(n uint32) {
	s.w.c.mu.Lock()
	defer s.w.c.mu.Unlock()
	window := s.w.req.Seq
	s.w.in = &incoming{got: n, read: n, paid: n + window, granted: n + window}
}

// SkipItems makes a handler count n items that it has not sent.
func (r *Request) SkipItems(n uint32) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.sent, r.allowed = n, n+r.Seq
}
