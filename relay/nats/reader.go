package nats

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// reader is how messages get from the channel of a subscription to calls of Next.
//
// While handlers are short, one goroutine leads: its call of Next reads the channel itself,
// and comes back for the next message when it has handled one. So a burst of requests wakes
// one goroutine, and their replies leave together. Other calls of Next wait in the queue.
//
// A handler that takes long keeps its goroutine away. Then a pump starts, a goroutine that
// moves messages from the channel to the queue, for the other calls. Later the pump ends, and puts
// a baton into the queue. The call of Next that gets the baton leads: what was in the queue before
// it has been taken, so requests stay in order, and the queue need not be empty at any moment. If
// that does not work out, the next pump stays longer. Tasks cannot read a channel, so with tasks
// there is always a pump.
//
//	         lead                      takes a message
//	none ────────────▶ leader ────────────────────────────▶ none
//	  │                   ▲
//	  │                   └─ baton taken ── offered ── for a period ──┐
//	  │                                        ▲                      │
//	  └─ for a period ──▶ pump ── has paused ──┘    ◀─────────────────┘
type reader struct {
	mu      sync.Mutex
	who     readerKind // guarded by mu, as all below
	tasks   bool       // Next was called in a task
	baton   bool       // the queue has the baton; while a pump runs, it has no effect
	turns   int        // messages that leaders took
	watched bool       // watch will be called
	seen    int        // turns when watch was scheduled
	timer   *time.Timer
	since   int           // turns when the last pump started
	pause   time.Duration // of the next pump
}

// readerKind is what reads the channel.
type readerKind uint8

const (
	noReader readerKind = iota
	leader              // a call of Next
	offered             // none until a call of Next gets the baton
	pump
)

const (
	watchPeriod = 2 * time.Millisecond  // how long messages may wait for a leader that is away
	minPause    = 10 * time.Millisecond // how long a pump runs at least
	maxPause    = time.Second
	fewTurns    = 1000 // leaders that took fewer messages before a pump started were not worth it
	fewQueued   = 64   // a pump ends only if there are no more: messages wait until they are taken
)

// lead reports whether the caller is to read the channel.
func (s *subscription) lead(ctx context.Context) bool {
	task := spindle.Current(ctx) != nil
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if task {
		r.tasks = true
		if r.who != pump {
			s.startPump()
		}
		return false
	}
	if r.who != noReader {
		return false
	}
	r.who = leader
	return true
}

// read is Next for the leader.
func (s *subscription) read(ctx context.Context) (*relay.Envelope, error) {
	for {
		var m *nats.Msg
		select { // cheaper than the other one, which has to wait
		case m = <-s.messages:
		default:
			select {
			case m = <-s.messages:
			case <-s.ended:
				s.endLead(0)
				return nil, relay.ErrClosed
			case <-ctx.Done():
				s.endLead(0)
				return nil, context.Cause(ctx)
			}
		}
		e, err := decode(m)
		if err == nil {
			s.endLead(1)
			return e, nil
		}
		s.b.dropped.Add(1)
	}
}

// endLead notes that the leader has left, with n messages.
func (s *subscription) endLead(n int) {
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns += n
	if r.who == leader { // otherwise a task has started a pump
		r.who = noReader
		s.watchOut()
	}
}

// watchOut schedules watch. The caller holds the reader's mutex.
func (s *subscription) watchOut() {
	r := &s.reader
	if r.watched {
		return
	}
	r.watched, r.seen = true, r.turns
	if r.timer == nil {
		r.timer = time.AfterFunc(watchPeriod, s.watch)
	} else {
		r.timer.Reset(watchPeriod)
	}
}

// watch starts a pump if there has been no reader for a period.
func (s *subscription) watch() {
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = false
	switch {
	case r.who == leader || r.who == pump || s.closed.Load():
	case r.turns != r.seen:
		s.watchOut()
	default:
		r.pause = min(2*r.pause, maxPause)
		if r.pause == 0 || r.turns-r.since > fewTurns {
			r.pause = minPause
		}
		r.since = r.turns
		s.startPump()
	}
}

// startPump starts a pump. The caller holds the reader's mutex.
func (s *subscription) startPump() {
	s.reader.who = pump
	s.b.background(s.pump)
}

// pump moves messages to the queue, until a goroutine is to lead or the subscription ends.
func (s *subscription) pump() {
	s.reader.mu.Lock()
	pause := max(s.reader.pause, minPause)
	s.reader.mu.Unlock()
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

// endPump reports whether the pump is to end, and whether there are tasks.
func (s *subscription) endPump() (end, tasks bool) {
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks || r.baton || s.queue.Statistics().Used > fewQueued || s.queue.TryPut(arrival{}) != nil {
		return false, r.tasks
	}
	r.who, r.baton = offered, true
	s.watchOut()
	return true, false
}

// takeBaton notes that the baton has left the queue, and reports whether the caller leads.
func (s *subscription) takeBaton() bool {
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	r.baton = false
	if r.who != offered {
		return false // it took too long, and there is a pump
	}
	r.who = leader
	return true
}
