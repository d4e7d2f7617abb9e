package nats

import "time"

// pace decides how long pumps stay. A pump that was needed soon again stays longer.
type pace struct {
	turns int           // messages that leaders took
	since int           // turns when the last pump started
	pause time.Duration // of leaders, for the last pump
}

const (
	minPause = 10 * time.Millisecond // how long a pump runs at least
	maxPause = time.Second
	fewTurns = 1000 // leaders that took fewer messages before a pump started were not worth it
)

// next returns how long the next pump runs at least.
func (p *pace) next() time.Duration {
	if p.turns-p.since > fewTurns {
		p.pause = 0
	}
	p.pause = min(max(2*p.pause, minPause), maxPause)
	p.since = p.turns
	return p.pause
}

// startPump starts a pump. The caller holds the reader's mutex.
func (s *subscription) startPump(pause time.Duration) {
	s.reader.kind = pump
	s.b.background(func() { s.pump(pause) })
}

// pump moves messages to the queue, until a goroutine is to lead or the subscription ends.
func (s *subscription) pump(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case m := <-s.messages:
			s.receive(m)
		case <-s.ended:
			return
		case <-timer.C:
			end, tasks := s.endPump()
			if end {
				return
			}
			if !tasks {
				pause = min(2*pause, maxPause)
				timer.Reset(pause)
			}
		}
	}
}

// fewQueued is how many messages a pump may leave in the queue: the channel is not read until
// they are taken.
const fewQueued = 64

// endPump reports whether the pump is to end, and whether there are tasks.
func (s *subscription) endPump() (end, tasks bool) {
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks || r.baton || s.queue.Statistics().Used > fewQueued || s.queue.TryPut(arrival{}) != nil {
		return false, r.tasks
	}
	r.kind, r.baton = noReader, true
	s.watchOut()
	return true, false
}
