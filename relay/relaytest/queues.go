package relaytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

func (s *suite) groups(ctx context.Context) error {
	const calls = 60
	handled := map[string]int{}
	var by [3]int
	for worker := range by {
		// The last one is in a group of its own, and gets everything too.
		group := map[bool]string{true: "others"}[worker == 2]
		_, _, err := s.serve(ctx, "job", relay.ServeOptions{Group: group, Concurrency: 2}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
			by[worker]++
			if worker < 2 {
				handled[string(r.Body)]++
			}
			return r.Body, spindle.Sleep(ctx, time.Millisecond)
		})
		if err != nil {
			return err
		}
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	var bodies []string
	for i := range calls {
		bodies = append(bodies, fmt.Sprint(i))
	}
	err = spindle.ForEach(ctx, 10, bodies, func(ctx context.Context, body string) error {
		_, err := c.Call(ctx, "job", []byte(body))
		return err
	})
	if err != nil {
		return err
	}
	if err := s.until(ctx, "all are handled", func() bool { return by[0]+by[1] >= calls && by[2] >= calls }); err != nil {
		return err
	}
	for body, n := range handled { // any order: only messages
		if n != 1 {
			s.Errorf("%q was handled %d times", body, n)
		}
	}
	if len(handled) != calls || by[0] == 0 || by[1] == 0 || by[2] != calls {
		s.Errorf("%d calls, by worker: %v", len(handled), by)
	}
	return c.Close()
}

func (s *suite) listeners(ctx context.Context) error {
	const envelopes = 50
	var got [2][]uint32
	for i := range got {
		bus, err := s.connect(ctx)
		if err != nil {
			return err
		}
		l := spindle.LoopOf(ctx)
		listener, err := bus.Listen(ctx, "news", func(e *relay.Envelope) {
			if l.Owns() {
				got[i] = append(got[i], e.Seq)
				return
			}
			_ = l.Post(func() { got[i] = append(got[i], e.Seq) }) // in the same order
		})
		if err != nil {
			return err
		}
		defer listener.Close()
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	bus, err := s.connect(ctx)
	if err != nil {
		return err
	}
	for i := range envelopes {
		if err := bus.Publish(ctx, &relay.Envelope{Kind: relay.KindItem, Subject: "news", Seq: uint32(i)}); err != nil {
			return err
		}
	}
	if err := s.until(ctx, "all have arrived", func() bool { return len(got[0]) == envelopes && len(got[1]) == envelopes }); err != nil {
		return err
	}
	for i := range got {
		for j, seq := range got[i] {
			if int(seq) != j {
				s.Errorf("listener %d gets %v", i, got[i])
				break
			}
		}
	}
	return nil
}

func (s *suite) canceledNext(ctx context.Context) error {
	bus, err := s.connect(ctx)
	if err != nil {
		return err
	}
	sub, err := bus.Subscribe(ctx, "work", "g")
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := s.settle(ctx); err != nil {
		return err
	}
	expired, err := spindle.MoveOnAfter(ctx, 5*time.Millisecond, func(ctx context.Context) error {
		_, err := sub.Next(ctx)
		return err
	})
	if !expired || err != nil {
		s.Errorf("Next returns without an envelope: %v, %v", expired, err)
	}
	if err := bus.Publish(ctx, &relay.Envelope{Kind: relay.KindItem, Subject: "work", Seq: 7}); err != nil {
		return err
	}
	d, err := sub.Next(ctx)
	if err != nil || d.Seq != 7 {
		s.Errorf("%+v, %v", d, err)
	}
	return nil
}

func (s *suite) leaves(ctx context.Context) error {
	var h hold
	_, stop, err := s.serve(ctx, "work", relay.ServeOptions{Concurrency: 1, Drain: 20 * time.Millisecond}, h.handle)
	if err != nil {
		return err
	}
	if _, _, err := s.serve(ctx, "work", relay.ServeOptions{Concurrency: 1}, echo); err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	for range 10 {
		// A request that was on its way to the first worker may fail once.
		if _, err := c.Call(ctx, "work", []byte("x")); err != nil && !errors.Is(err, relay.ErrNoResponder) {
			return err
		}
	}
	if h.started > 0 {
		s.Errorf("a worker that has left gets %d requests", h.started)
	}
	return c.Close()
}

func (s *suite) closed(ctx context.Context) error {
	bus, err := s.connect(ctx)
	if err != nil {
		return err
	}
	sub, err := bus.Subscribe(ctx, "work", "g")
	if err != nil {
		return err
	}
	var next error
	s.n.Go(func(ctx context.Context) error {
		_, next = sub.Next(ctx)
		return nil
	})
	if err := spindle.Yield(ctx); err != nil {
		return err
	}
	for range 2 {
		if err := bus.Close(); err != nil {
			return err
		}
	}
	if err := s.until(ctx, "Next has returned", func() bool { return next != nil }); err != nil {
		return err
	}
	_, listen := bus.Listen(ctx, "a", func(*relay.Envelope) {})
	_, subscribe := bus.Subscribe(ctx, "a", "")
	for name, err := range map[string]error{ // any order: only messages
		"Next": next, "Ready": bus.Ready(), "Listen": listen, "Subscribe": subscribe,
		"Publish":    bus.Publish(ctx, &relay.Envelope{Subject: "work"}),
		"TryPublish": bus.TryPublish(&relay.Envelope{Subject: "work"}),
	} {
		if !errors.Is(err, relay.ErrClosed) {
			s.Errorf("%s: %v", name, err)
		}
	}
	return nil
}

func (s *suite) subjects(ctx context.Context) error {
	bus, err := s.connect(ctx)
	if err != nil {
		return err
	}
	long := strings.Repeat("a", 231)
	for _, subject := range []string{"", "a b", "a\n", long, "$JS.API.STREAM.DELETE.JOBS", "$a", "a.*", "a.>", ">", "*", "a..b", ".a", "a."} {
		_, listen := bus.Listen(ctx, subject, func(*relay.Envelope) {})
		_, subscribe := bus.Subscribe(ctx, subject, "")
		for name, err := range map[string]error{ // any order: only messages
			"Listen": listen, "Subscribe": subscribe, "TryPublish": bus.TryPublish(&relay.Envelope{Subject: subject}),
		} {
			if !errors.Is(err, relay.ErrSubject) {
				s.Errorf("%s %q: %v", name, subject, err)
			}
		}
	}
	return s.longest(ctx, long[1:])
}

// longest serves and calls the longest subject, and cancels: workers and callers use subjects
// that are longer.
func (s *suite) longest(ctx context.Context, subject string) error {
	var h hold
	if _, _, err := s.serve(ctx, subject, relay.ServeOptions{}, h.handle); err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, relay.Envelope{Subject: subject, Deadline: 50 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a call of the longest subject: %v", err)
	}
	if st := c.Stats(); st.CancelsLost > 0 {
		s.Errorf("%+v", st)
	}
	return c.Close()
}
