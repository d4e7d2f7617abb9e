package inspect

import (
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/internal/probe"
)

// attachFor is how long accounting goes on after the last request.
const attachFor = 30 * time.Second

// attachment is whether the accounting of loops is on. The first request turns it on, and a
// goroutine that exists only meanwhile turns it off.
var attachment struct {
	mu      sync.Mutex
	tasks   time.Duration // until when accounting of tasks is on; guarded by mu
	metrics time.Duration // until when requests are counted; guarded by mu
	running bool          // the goroutine exists; guarded by mu
	quit    chan struct{} // closed by detach; guarded by mu
}

// metricsFor is how long requests are counted after metrics were last read. Collectors read
// them every minute or more often.
const metricsFor = 5 * time.Minute

// attachTasks turns accounting of tasks on.
func attachTasks() { attach(&attachment.tasks, attachFor) }

// attachMetrics turns counting of requests on.
func attachMetrics() { attach(&attachment.metrics, metricsFor) }

func attach(until *time.Duration, d time.Duration) {
	a := &attachment
	a.mu.Lock()
	defer a.mu.Unlock()
	*until = now() + d
	if !a.running {
		a.running, a.quit = true, make(chan struct{})
		quit := a.quit
		background(func() { keepAttached(quit) })
	}
}

// attachEvery is how often new loops are looked for.
const attachEvery = time.Second

// keepAttached attaches loops until no request has come for a while.
func keepAttached(quit chan struct{}) {
	for {
		a := &attachment
		a.mu.Lock()
		tasks, metrics := now() < a.tasks, now() < a.metrics
		select {
		case <-quit:
			tasks, metrics = false, false
		default:
		}
		ends := !tasks && !metrics
		if ends {
			a.running = false
		}
		a.mu.Unlock()
		for _, s := range openSources() {
			s.setAttached(tasks, metrics)
			if !tasks {
				s.forget()
			}
		}
		if !tasks {
			forgetForests()
		}
		if ends {
			return
		}
		tick, stop := afterPause(attachEvery)
		select {
		case <-tick:
		case <-quit:
		}
		stop()
	}
}

// detach turns accounting off at once. The next request turns it on again.
func detach() {
	a := &attachment
	a.mu.Lock()
	a.tasks, a.metrics = 0, 0
	if a.running {
		select {
		case <-a.quit:
		default:
			close(a.quit)
		}
	}
	a.mu.Unlock()
}

// setAttached turns the accounting of a loop on or off. It does not wait for the loop,
// which may be blocked.
func (s *source) setAttached(tasks, metrics bool) {
	want := attached{tasks, metrics, true}
	s.mu.Lock()
	same := s.attached == want && !tasks && !metrics // state of the loop may have come since
	asked := s.attaching
	s.wanted = want
	s.attaching = !same
	s.mu.Unlock()
	if same || asked {
		return
	}
	err := s.core.Post(loopcore.DropAtClose, func() {
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
	s.tasks.mu.Lock()
	s.tasks.last = nil
	s.tasks.mu.Unlock()
	s.sockets.mu.Lock()
	s.sockets.at, s.sockets.rows = 0, nil
	s.sockets.mu.Unlock()
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
		s.core.Phases = nil
	case s.core.Phases == nil:
		s.core.Phases = &loopcore.Phases{}
	}
	s.core.EachValue(func(v any) {
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
