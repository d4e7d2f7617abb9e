package relay

import "context"

// pull is a puller: it takes requests and serves them with serve.
func (s *service) pull(ctx context.Context, serve func(d Delivery)) {
	for s.waits() {
		d, err := s.sub.Next(ctx)
		if !s.took(err) {
			return
		}
		serve(d)
	}
}

// keepPullers is how many idle pullers a service keeps.
const keepPullers = 64

// waits notes that a puller waits for a request. It reports false if there are enough, and
// the puller ends.
func (s *service) waits() bool {
	if s.joinIdle() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joinIdle() { // all may have become busy, and found no room for another one
		return true
	}
	s.leave()
	return false
}

// joinIdle adds one to idle, unless there are enough. Idle is never more than the pullers
// that wait: took relies on it.
func (s *service) joinIdle() bool {
	for n := s.idle.Load(); n < keepPullers; n = s.idle.Load() {
		if s.idle.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// leave notes that a puller ends. The caller holds s.mu.
func (s *service) leave() {
	if s.pullers--; s.pullers == 0 {
		_ = s.ended.TryPut(struct{}{})
	}
}

// took notes that a puller has a request, and starts another one if none is idle. It
// reports false if there was an error, and the puller ends.
func (s *service) took(err error) bool {
	if s.idle.Add(-1) > 0 && err == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failure = err
		s.leave()
		return false
	}
	if s.pullers < s.o.Concurrency {
		s.pullers++
		s.spawn()
	}
	return true
}
