package loop

import (
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// kind is the kind of a Pending.
type kind uint8

const (
	kindReady  kind = iota + 1 // callbacks of CallSoon and Post that are ready
	kindTimers                 // timers that are due
	kindFD                     // a ready descriptor
)

// Pending is an entry that Poll collected and that waits to be run.
type Pending struct {
	FD    int   // a ready descriptor; -1 for ready callbacks and due timers
	Ready Ready // what FD is ready for

	kind kind
	l    *Loop
	tok  kernel.Token
}

// steps is what Poll has collected and what Pending has lent.
type steps struct {
	collected []Pending
	from      int          // the first of them that is still to run
	batches   [kindFD]bool // which kinds that stand for a batch are among them
	lent      []Pending
}

// Poll and Pending split a turn, for a host that has an event loop of its own. Poll polls
// the kernel and collects what there is to run without running it. It waits at most
// timeout (without limit if negative), and does not wait if something is there already.
// It returns the number of entries that Pending will return. Readiness of a descriptor
// that already waits to be run is merged into its entry.
//
//	for {
//		if _, err := l.Poll(timeout); err != nil { … }
//		for _, p := range l.Pending() {
//			if err := p.Run(); err != nil { … }
//		}
//	}
//
// A Post from another goroutine wakes a waiting Poll. Run and RunOnce first run what Poll
// has collected.
func (l *Loop) Poll(timeout time.Duration) (int, error) {
	l.enter("Poll")
	defer l.leave()
	s := &l.steps
	s.endLoan(l)
	s.collectEvents(l) // what a panic left
	l.takeInbox()
	if s.waiting() > 0 {
		timeout = 0
	}
	l.stepped = l.callbacks()
	l.poll(timeout)
	if l.failure != nil {
		return 0, l.failure
	}
	l.takeInbox()
	if l.timersDue {
		s.collectBatch(l, kindTimers)
	}
	if l.ready() > 0 {
		s.collectBatch(l, kindReady)
	}
	s.collectEvents(l)
	return s.waiting(), nil
}

// Pending returns what Poll has collected. The slice is valid until the next Poll. If the
// caller does not run ready callbacks or timers, the next Poll collects them again. So it
// does a descriptor that is watched with Level.
func (l *Loop) Pending() []Pending {
	l.only("Pending")
	s := &l.steps
	if s.waiting() == 0 {
		return nil
	}
	s.lent, s.collected = s.collected, s.lent[:0]
	lent := s.lent[s.from:]
	s.from, s.batches = 0, [kindFD]bool{}
	for _, p := range lent {
		if w := l.watches.at(p.tok); p.kind == kindFD && w != nil {
			w.pending = 0
		}
	}
	return lent
}

// Run runs the entry's callbacks, unless they were cancelled meanwhile. It returns the
// panic of a callback if Options.OnPanic did not accept it.
func (p Pending) Run() error {
	if p.l == nil {
		panic("loop: Run of a Pending that was valid until the last Poll")
	}
	l := p.l
	l.enter("Pending.Run")
	defer l.leave()
	l.guard(func() { p.run() })
	return l.failure
}

func (p Pending) run() {
	switch l := p.l; p.kind {
	case kindReady:
		l.runReady()
	case kindTimers:
		l.fireTimers()
	case kindFD:
		l.dispatch(&events{all: []kernel.Event{{Token: p.tok, Ready: p.Ready}}, end: 1})
	}
}

// run runs what Poll collected and Pending did not return.
func (s *steps) run(l *Loop) {
	for s.waiting() > 0 {
		p := s.collected[s.from]
		s.from++ // before the call: it may panic
		if p.kind < kindFD {
			s.batches[p.kind] = false
		}
		if w := l.watches.at(p.tok); p.kind == kindFD && w != nil {
			w.pending = 0
		}
		p.run()
	}
	s.collected, s.from, s.batches = s.collected[:0], 0, [kindFD]bool{}
}

func (s *steps) waiting() int { return len(s.collected) - s.from }

// endLoan ends the loan of Pending's slice. In debug mode, running an entry afterwards
// panics.
func (s *steps) endLoan(l *Loop) {
	if l.opts.Debug {
		clear(s.lent)
	}
	s.lent = s.lent[:0]
}

// collectBatch adds an entry for any number of callbacks.
func (s *steps) collectBatch(l *Loop, k kind) {
	if !s.batches[k] {
		s.batches[k] = true
		s.collected = append(s.collected, Pending{FD: -1, kind: k, l: l})
	}
}

// collectEvents turns the events of the last wait into entries, one per descriptor.
func (s *steps) collectEvents(l *Loop) {
	for e := &l.events; e.at < e.end; e.at++ {
		ev := e.all[e.at]
		w := l.watches.at(ev.Token)
		if w == nil || ev.Ready == 0 { // gone, or delivered before a panic
			continue
		}
		if w.pending != 0 {
			w.pending |= ev.Ready
			s.collected[w.pendingAt].Ready = w.pending
			continue
		}
		w.pending, w.pendingAt = ev.Ready, uint32(len(s.collected))
		s.collected = append(s.collected, Pending{kind: kindFD, FD: int(w.fd), Ready: ev.Ready, l: l, tok: ev.Token})
	}
}
