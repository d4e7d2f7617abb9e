package relay

import (
	"context"

	"github.com/spindleloop/spindle"
)

// serveOnGoroutines serves with a goroutine for each handler. The goroutines are reused.
func (s *service) serveOnGoroutines(ctx context.Context) error {
	if s.clock.l != nil && spindle.Current(ctx) != nil && !s.clock.l.Internal().Kernel().Real() {
		panic("relay: handlers run on goroutines, which a simulated run cannot have; set ServeOptions.InTasks")
	}
	s.spawn = func() { go s.pullOnGoroutine() }
	return s.run(ctx)
}

// pullOnGoroutine is a puller. If a handler ends its goroutine by Goexit, another one takes
// its place.
func (s *service) pullOnGoroutine() {
	returned := false
	defer func() {
		if !returned {
			s.spawn()
		}
	}()
	s.pull(&ownGoroutine{Context: context.Background()}, s.serveOnGoroutine)
	returned = true
}

func (s *service) serveOnGoroutine(d Delivery) {
	v := &invocation{Request: Request{Envelope: d.Envelope, s: s, settle: d.Settle}}
	ok, o := s.admit(v)
	defer func() { v.settled(o) }()
	if ok {
		defer v.stop()
		o = s.perform(v, v)
	}
}
