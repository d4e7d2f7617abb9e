package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

// TestCancelWakesSend, also with a context that is not the handler's.
func TestCancelWakesSend(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	ended := make(chan error, 1)
	serve(t, bus, "endless", relay.ServeOptions{}, func(_ context.Context, r *relay.Request) (_ []byte, err error) {
		for err == nil {
			err = r.Send(context.Background(), nil)
		}
		ended <- err
		return nil, err
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "endless"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := <-ended; !errors.Is(err, relay.ErrClosed) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "endless") {
		t.Error(err)
	}
	c.Close()
}

// refusing is a bus that does not take the first credit.
type refusing struct {
	relay.Bus
	refused bool
}

func (b *refusing) TryPublish(e *relay.Envelope) error {
	if e.Kind == relay.KindCredit && !b.refused {
		b.refused = true
		return relay.ErrFull
	}
	return b.Bus.TryPublish(e)
}

// TestCreditThatIsNotTaken is sent again.
func TestCreditThatIsNotTaken(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			bus := &refusing{Bus: relay.NewLocal(relay.LocalOptions{})}
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "count", func(ctx context.Context, r *relay.Request) ([]byte, error) {
					for i := range 10 {
						if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
							return nil, err
						}
					}
					return nil, nil
				}, relay.ServeOptions{InTasks: true})
			})
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			c := newCaller(t, ctx, bus, relay.CallerOptions{Window: 3})
			s, err := c.Stream(ctx, relay.Envelope{Subject: "count"})
			if err != nil {
				return err
			}
			defer s.Close()
			for i := range 10 {
				if item, err := s.Next(ctx); err != nil || string(item) != fmt.Sprint(i) {
					return fmt.Errorf("item %d is %q, %w", i, item, err)
				}
			}
			if _, err := s.Next(ctx); err != io.EOF {
				t.Error(err)
			}
			return c.Close()
		})
	})
}

// attempt is a delivery of a stream's request to a worker that the test plays.
type attempt struct {
	t      *testing.T
	bus    relay.Bus
	r      *relay.Envelope
	worker string
	n      uint32
}

func (a attempt) answer(kind relay.Kind, seq int) {
	a.t.Helper()
	e := &relay.Envelope{Kind: kind, ID: a.r.ID, Token: a.r.Token, Subject: a.r.ReplyTo, ReplyTo: a.worker, Seq: uint32(seq), Attempt: a.n}
	if kind == relay.KindItem {
		e.Body = fmt.Append(nil, seq)
	}
	if err := a.bus.TryPublish(e); err != nil {
		a.t.Error(err)
	}
}

func (a attempt) items(first, last int) {
	a.t.Helper()
	for seq := first; seq <= last; seq++ {
		a.answer(relay.KindItem, seq)
	}
}

// redelivered opens a stream, and returns two attempts at its request on different workers.
func redelivered(t *testing.T, window int, program func(s *relay.Stream, first, second attempt, c *relay.Caller)) {
	bus := relay.NewLocal(relay.LocalOptions{})
	sub, err := bus.Subscribe(t.Context(), "count", "workers")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Window: window})
	defer c.Close()
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "count"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := sub.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := attempt{t, bus, d.Envelope, "_worker.1", 1}
	second := attempt{t, bus, d.Envelope, "_worker.2", 2}
	program(s, first, second, c)
}

// read reads items of a stream.
func read(t *testing.T, s *relay.Stream, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		if item, err := s.Next(t.Context()); err != nil || string(item) != fmt.Sprint(i) {
			t.Fatalf("item %d is %q, %v", i, item, err)
		}
	}
}

// listen returns a channel for the messages to a worker.
func listen(t *testing.T, bus relay.Bus, subject string) <-chan relay.Envelope {
	t.Helper()
	got := make(chan relay.Envelope, 100)
	l, err := bus.Listen(t.Context(), subject, func(e *relay.Envelope) { got <- *e })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return got
}

// TestStreamOnAnotherWorker: a later attempt goes on where the first one has ended, and what
// the first one still sends is dropped.
func TestStreamOnAnotherWorker(t *testing.T) {
	redelivered(t, 16, func(s *relay.Stream, first, second attempt, c *relay.Caller) {
		first.items(1, 3)
		second.items(1, 2)
		first.items(4, 5)
		first.answer(relay.KindReply, 5)
		first.answer(relay.KindFailure, 0)
		second.items(3, 5)
		second.answer(relay.KindReply, 5)
		read(t, s, 1, 5)
		if _, err := s.Next(t.Context()); err != io.EOF {
			t.Error(err)
		}
		if st := c.Stats(); st.Duplicate != 7 || st.Replied != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestCreditOfALaterAttempt: its worker may send again what the caller has read, and as much
// more as the first worker was allowed.
func TestCreditOfALaterAttempt(t *testing.T) {
	for _, worker := range []string{"_worker.1", "_worker.2"} {
		t.Run(worker, func(t *testing.T) {
			redelivered(t, 4, func(s *relay.Stream, first, second attempt, _ *relay.Caller) {
				second.worker = worker
				credits := listen(t, first.bus, "_worker.1")
				first.items(1, 4)
				read(t, s, 1, 3)
				if e := <-credits; e.Kind != relay.KindCredit || e.Seq != 6 {
					t.Errorf("%+v", e)
				}
				first.items(5, 6)
				if worker != "_worker.1" {
					credits = listen(t, first.bus, worker)
				}
				second.items(1, 2)
				if e := <-credits; e.Kind != relay.KindCredit || e.Seq != 6 || e.ID != first.r.ID || e.ReplyTo != first.r.ReplyTo {
					t.Errorf("%+v", e)
				}
				second.items(3, 6)
				read(t, s, 4, 4)
				if e := <-credits; e.Seq != 8 {
					t.Errorf("%+v", e)
				}
				second.items(7, 8)
				read(t, s, 5, 8)
				if len(credits) != 2 {
					t.Errorf("%d more credits", len(credits))
				}
			})
		})
	}
}

// TestCancelOfALaterAttempt reaches all workers, because more than one may have the request.
func TestCancelOfALaterAttempt(t *testing.T) {
	redelivered(t, 16, func(s *relay.Stream, first, second attempt, _ *relay.Caller) {
		all := listen(t, first.bus, "_cancel.count")
		first.items(1, 3)
		second.items(1, 2)
		s.Close()
		if e := <-all; e.Kind != relay.KindCancel || e.ID != first.r.ID {
			t.Errorf("%+v", e)
		}
	})
}

// TestGroupThatEnds while a publisher waits for it does not keep others from the envelope.
func TestGroupThatEnds(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
		var subs []relay.Subscription
		for _, group := range []string{"a", "b"} {
			sub, err := bus.Subscribe(ctx, "work", group)
			if err != nil {
				return err
			}
			defer sub.Close()
			subs = append(subs, sub)
		}
		publish := func(ctx context.Context) error {
			return bus.Publish(ctx, &relay.Envelope{Kind: relay.KindItem, Subject: "work"})
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			if err := publish(ctx); err != nil {
				return err
			}
			n.Go(publish)
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			subs[0].Close()
			for range 2 {
				if _, err := subs[1].Next(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// TestClosedLoops are forgotten.
func TestClosedLoops(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "echo", relay.ServeOptions{}, echo)
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	for range 10 {
		err := spindle.Run(t.Context(), func(ctx context.Context) error {
			if _, err := c.Call(ctx, "echo", nil); err != nil {
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Loops(); n > 1 {
		t.Errorf("%d loops", n)
	}
	c.Close()
}

// TestMostItems: Envelope.Seq counts as many items as a stream can have. Then Send fails, instead of counting from
// 0 again.
func TestMostItems(t *testing.T) {
	const before, after = math.MaxUint32 - 100, 100
	bus := relay.NewLocal(relay.LocalOptions{})
	counting := make(chan struct{})
	serve(t, bus, "work", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) (_ []byte, err error) {
		r.SkipItems(before)
		<-counting
		for err == nil {
			err = r.Send(ctx, nil)
		}
		return nil, err
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"})
	if err != nil {
		t.Fatal(err)
	}
	s.SkipItems(before)
	close(counting)
	n := 0
	for err == nil {
		if _, err = s.Next(t.Context()); err == nil {
			n++
		}
	}
	if n != after || !strings.Contains(err.Error(), "a stream has at most 4294967295 items") {
		t.Errorf("%d items, and then %v", n, err)
	}
	s.Close()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
