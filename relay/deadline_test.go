package relay_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

// TestStreamThatIsNotRead ends at its deadline, and its handler with it.
func TestStreamThatIsNotRead(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"of the Caller": 0, "its own": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				bus := relay.NewLocal(relay.LocalOptions{})
				sub, err := bus.Subscribe(ctx, "work", "")
				if err != nil {
					return err
				}
				defer sub.Close()
				canceled := false
				if _, err := bus.Listen(ctx, "_cancel.work", func(*relay.Envelope) { canceled = true }); err != nil {
					return err
				}
				c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: 3 * time.Second})
				began := spindle.Now(ctx)
				s, err := c.Stream(ctx, relay.Envelope{Subject: "work", Deadline: deadline})
				if err != nil {
					return err
				}
				for c.Stats().Waiting > 0 {
					if err := spindle.Sleep(ctx, 100*time.Millisecond); err != nil {
						return err
					}
				}
				took := spindle.Now(ctx).Sub(began)
				if want := max(deadline, 3*time.Second-deadline); took < want-time.Second || took > 4*time.Second || !canceled {
					t.Errorf("it ended after %v, cancelled %v", took, canceled)
				}
				if _, err := s.Next(ctx); !errors.Is(err, spindle.ErrTimeout) {
					t.Error(err)
				}
				if s := c.Stats(); s.TimedOut != 1 {
					t.Errorf("%+v", s)
				}
				return c.Close()
			})
		})
	}
}

// TestDeadlinesOfGoroutines: a call and a stream of a goroutine end at their deadlines.
func TestDeadlinesOfGoroutines(t *testing.T) {
	for name, e := range map[string]relay.Envelope{
		"of the Caller": {Subject: "work"}, "its own": {Subject: "work", Deadline: 2 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{})
			sub, err := bus.Subscribe(t.Context(), "work", "")
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			canceled := make(chan struct{}, 4)
			if _, err := bus.Listen(t.Context(), "_cancel.work", func(*relay.Envelope) { canceled <- struct{}{} }); err != nil {
				t.Fatal(err)
			}
			c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Millisecond})
			for range 3 {
				if _, err := c.Do(t.Context(), e); !errors.Is(err, spindle.ErrTimeout) {
					t.Error(err)
				}
			}
			s, err := c.Stream(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				<-canceled
			}
			if _, err := s.Next(t.Context()); !errors.Is(err, spindle.ErrTimeout) {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLongestDeadline: a call with the longest deadline that there is does not end at once.
func TestLongestDeadline(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "echo", relay.ServeOptions{}, echo)
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: math.MaxInt64})
	for name, deadline := range map[string]time.Duration{"of the Caller": 0, "its own": math.MaxInt64} {
		if _, err := c.Do(t.Context(), relay.Envelope{Subject: "echo", Deadline: deadline}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeadlinesInAnyOrder: calls that end out of order leave no deadline behind, and those
// that remain end at theirs.
func TestDeadlinesInAnyOrder(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{})
		sub, err := bus.Subscribe(ctx, "work", "")
		if err != nil {
			return err
		}
		defer sub.Close()
		c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Second})
		began := spindle.Now(ctx)
		ended := map[int]time.Duration{}
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for i := range 6 {
				n.Go(func(ctx context.Context) error {
					_, err := spindle.MoveOnAfter(ctx, time.Duration(i%3)*300*time.Millisecond+time.Hour*time.Duration(i%2), func(ctx context.Context) error {
						_, err := c.Call(ctx, "work", nil)
						ended[i] = spindle.Now(ctx).Sub(began)
						if errors.Is(err, spindle.ErrTimeout) {
							err = nil
						}
						return err
					})
					return err
				})
				if err := spindle.Sleep(ctx, 10*time.Millisecond); err != nil {
					return err
				}
			}
			return nil
		})
		for i, at := range ended {
			want := time.Second
			if i%2 == 0 {
				want = time.Duration(i%3) * 300 * time.Millisecond
			}
			if want += time.Duration(i) * 10 * time.Millisecond; at < want || at > want+5*time.Millisecond {
				t.Errorf("call %d ended after %v, want %v", i, at, want)
			}
		}
		return errors.Join(err, c.Close())
	})
}

// TestDeadlineThatTheWorkerNoticesFirst: a call ends by its own deadline, or by its context,
// though the worker's failure comes before its timer. If it has time left, it has the failure.
func TestDeadlineThatTheWorkerNoticesFirst(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	l, err := bus.Listen(t.Context(), "work", func(e *relay.Envelope) {
		if err := bus.TryPublish(relay.NewFailure(e, "deadline", "late")); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	call := func(ctx context.Context, deadline time.Duration) error {
		_, err := c.Do(ctx, relay.Envelope{Subject: "work", Deadline: deadline})
		return err
	}
	if err := call(t.Context(), 1); !errors.Is(err, spindle.ErrTimeout) {
		t.Errorf("at its deadline: %v", err)
	}
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work", Deadline: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, spindle.ErrTimeout) {
		t.Errorf("at the deadline of a stream: %v", err)
	}
	s.Close()
	past, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if err := call(past, 0); err != context.DeadlineExceeded {
		t.Errorf("at that of its context: %v", err)
	}
	if err := call(t.Context(), time.Hour); !errors.As(err, new(*relay.RemoteError)) {
		t.Errorf("before its deadline: %v", err)
	}
	if s := c.Stats(); s.TimedOut != 2 || s.Canceled != 1 || s.Replied != 1 || s.Late != 3 {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeadlineOfACallThatWaitedForSpace is not delayed by that of a call that began later and was
// sent at once.
func TestDeadlineOfACallThatWaitedForSpace(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
		full, err := bus.Subscribe(ctx, "full", "")
		if err != nil {
			return err
		}
		defer full.Close()
		free, err := bus.Subscribe(ctx, "free", "")
		if err != nil {
			return err
		}
		defer free.Close()
		c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Second})
		if err := bus.TryPublish(&relay.Envelope{Subject: "full"}); err != nil {
			return err
		}
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for _, subject := range []string{"full", "free", "free"} {
				began := spindle.Now(ctx)
				n.Go(func(ctx context.Context) error {
					_, err := c.Call(ctx, subject, nil)
					if took := spindle.Now(ctx).Sub(began); !errors.Is(err, spindle.ErrTimeout) || took > 1100*time.Millisecond {
						t.Errorf("%s: %v after %v", subject, err, took)
					}
					return nil
				})
				if err := spindle.Sleep(ctx, 200*time.Millisecond); err != nil {
					return err
				}
				if subject == "full" {
					continue
				}
				if _, err := free.Next(ctx); err != nil {
					return err
				}
			}
			_, err := full.Next(ctx) // now there is space
			return err
		})
		if err != nil {
			return err
		}
		return c.Close()
	})
}
