package nats

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// reader decides what reads the channel of a subscription: calls of Next, or a pump.
//
// While handlers are short, one goroutine leads: its call of Next reads the channel itself,
// and comes back for the next message when it has handled one. So a burst of requests wakes
// one goroutine, and their replies leave together. Other calls of Next wait in the queue.
//
// A handler that takes long keeps its goroutine away. Then a pump starts, a goroutine that
// moves messages from the channel to the queue, for the other calls. Later the pump ends, and
// puts a baton into the queue. The call of Next that gets the baton leads: what was in the queue
// before it has been taken, so requests stay in order, and the queue need not be empty at any
// moment. Tasks cannot read a channel, so with tasks there is always a pump.
//
//	             lead, or the baton
//	          ┌──────────────────────▶ leader
//	          │                          │
//	noReader ◀┼── takes a message ───────┘
//	          │
//	          ├── for a period ──────▶ pump
//	          │                          │
//	          └◀─ puts the baton ────────┘
type reader struct {
	mu    sync.Mutex
	kind  readerKind // guarded by mu, as all below
	baton bool       // in the queue: without a reader, the next leader is the call that gets it
	tasks bool       // Next was called in a task

	watching bool // watch will be called
	seen     int  // turns when watch was scheduled
	timer    *time.Timer
	pace
}

// readerKind is what reads the channel.
type readerKind uint8

const (
	noReader readerKind = iota
	leader              // a call of Next
	pump                // a goroutine
)

// lead reports whether the caller is to read the channel.
func (s *subscription) lead(ctx context.Context) bool {
	task := spindle.Current(ctx) != nil
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if task {
		r.tasks = true
		if r.kind != pump {
			s.startPump(minPause)
		}
		return false
	}
	if r.kind != noReader || r.baton {
		return false
	}
	r.kind = leader
	return true
}

// takeBaton notes that the baton has left the queue, and reports whether the caller leads.
func (s *subscription) takeBaton() bool {
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	r.baton = false
	if r.kind != noReader {
		return false // it took too long, and there is a pump
	}
	r.kind = leader
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
				return nil, s.whyEnded()
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
	if r.kind == leader { // otherwise a task has started a pump
		r.kind = noReader
		s.watchOut()
	}
}

// watchPeriod is how long messages may wait for a leader that is away.
const watchPeriod = 2 * time.Millisecond

// watchOut schedules watch. The caller holds the reader's mutex.
func (s *subscription) watchOut() {
	r := &s.reader
	if r.watching {
		return
	}
	r.watching, r.seen = true, r.turns
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
	r.watching = false
	switch {
	case r.kind != noReader || s.closed.Load():
	case r.turns != r.seen:
		s.watchOut()
	default:
		s.startPump(r.next())
	}
}
