package inspect

import (
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/probe"
)

// attachFor is how long accounting goes on after the last request.
const attachFor = 30 * time.Second

// attachment is whether the accounting of loops is on. The first request turns it on, and a
// timer that is set meanwhile turns it off.
var attachment struct {
	mu      sync.Mutex
	users   map[*handler]attachedUntil // guarded by mu
	running bool                       // timer is set, or look runs; guarded by mu
	timer   interface{ Stop() bool }   // calls look; guarded by mu
	looking sync.Mutex                 // held by look
}

// attachedUntil is until when a handler needs accounting, on the inspector's clock.
type attachedUntil struct{ tasks, metrics time.Duration }

// metricsFor is how long requests are counted after metrics were last read. Collectors read
// them every minute or more often.
const metricsFor = 5 * time.Minute

// attachTasks turns accounting of tasks on.
func (h *handler) attachTasks() {
	h.attach(func(u *attachedUntil) { u.tasks = now() + attachFor })
}

// attachMetrics turns counting of requests on.
func (h *handler) attachMetrics() {
	h.attach(func(u *attachedUntil) { u.metrics = now() + metricsFor })
}

func (h *handler) attach(extend func(*attachedUntil)) {
	a := &attachment
	a.mu.Lock()
	defer a.mu.Unlock()
	until := a.users[h]
	extend(&until)
	if a.users == nil {
		a.users = make(map[*handler]attachedUntil)
	}
	a.users[h] = until
	if !a.running {
		a.running = true
		background(look)
	}
}

// attachEvery is how often new loops are looked for.
const attachEvery = time.Second

// look attaches the loops that are open, and looks again after a while, until no request has
// come for a longer one.
func look() {
	a := &attachment
	a.looking.Lock()
	defer a.looking.Unlock()
	tasks, metrics := wantedAccounting()
	for _, s := range openSources() {
		s.setAttached(tasks, metrics)
		if !tasks {
			s.forget()
		}
	}
	if !tasks {
		forgetForests()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case tasks || metrics:
		a.timer = afterFunc(attachEvery, look)
	case len(a.users) > 0: // since a moment
		background(look)
	default:
		a.running = false
	}
}

// wantedAccounting returns which accounting a handler needs. It forgets handlers that need
// none.
func wantedAccounting() (tasks, metrics bool) {
	a := &attachment
	a.mu.Lock()
	defer a.mu.Unlock()
	at := now()
	for h, until := range a.users {
		if at >= until.tasks && at >= until.metrics {
			delete(a.users, h)
			continue
		}
		tasks, metrics = tasks || at < until.tasks, metrics || at < until.metrics
	}
	return tasks, metrics
}

// detach turns off at once the accounting that only h needs. Its next request turns it on
// again.
func (h *handler) detach() { detach(func(user *handler) bool { return user == h }) }

// detach turns off the accounting that only some handlers need.
func detach(leaves func(*handler) bool) {
	a := &attachment
	a.mu.Lock()
	defer a.mu.Unlock()
	for h := range a.users {
		if leaves(h) {
			delete(a.users, h)
		}
	}
	if a.timer != nil && a.timer.Stop() { // otherwise look is about to notice
		background(look)
	}
}

// setAttached turns the accounting of a loop on or off. It does not wait for the loop,
// which may be blocked.
func (s *source) setAttached(tasks, metrics bool) {
	want := attached{tasks, metrics, true}
	s.mu.Lock()
	same := s.attached == want && !tasks && !metrics // state of the loop may have come since
	posted := s.attaching
	s.wanted = want
	s.attaching = !same
	s.mu.Unlock()
	if same || posted {
		return
	}
	err := s.l.Internal().Post(atclose.Drop, func() {
		s.mu.Lock()
		want := s.wanted
		s.attaching, s.attached = false, want
		s.mu.Unlock()
		s.attachOnLoop(want)
	})
	if err != nil {
		return // the loop is closed
	}
}

// forget releases the snapshots of the loop, which may be large.
func (s *source) forget() {
	s.tasks.forget()
	s.sockets.forget()
}

// counts reports whether requests are counted.
func (s *source) counts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted.metrics
}

// attached is which accounting is on.
type attached struct{ tasks, metrics, known bool }

// attachOnLoop turns accounting on or off, on the loop.
func (s *source) attachOnLoop(want attached) {
	switch {
	case !want.tasks:
		s.l.Internal().SetPhases(nil)
	case s.l.Internal().Phases() == nil:
		s.l.Internal().SetPhases(&probe.Phases{Began: s.l.Time()})
	}
	s.l.Internal().EachValue(func(v any) {
		switch v := v.(type) {
		case probe.Tasks:
			v.Attach(want.tasks)
			v.LabelAll(profiling.Load())
		case probe.Requests:
			if want.metrics {
				v.MeterRequests(&s.requests)
			} else {
				v.MeterRequests(nil)
			}
		}
	})
}
