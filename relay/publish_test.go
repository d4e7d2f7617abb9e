package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

func TestFullQueue(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
		sub, err := bus.Subscribe(ctx, "work", "")
		if err != nil {
			return err
		}
		defer sub.Close()
		waits := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Second, MaxWaiters: 2})
		fails := newCaller(t, ctx, bus, relay.CallerOptions{FailWhenFull: true})
		_, err = waits.Stream(ctx, relay.Envelope{Subject: "work", Deadline: time.Hour}) // fills the queue
		if err != nil {
			return err
		}
		if _, err := fails.Call(ctx, "work", nil); !errors.Is(err, relay.ErrFull) {
			t.Errorf("FailWhenFull: %v", err)
		}
		before := spindle.Now(ctx)
		if _, err := waits.Call(ctx, "work", nil); !errors.Is(err, spindle.ErrTimeout) {
			t.Errorf("in a full queue: %v", err)
		}
		if took := spindle.Now(ctx).Sub(before); took != time.Second {
			t.Errorf("it waits %v", took)
		}
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, err := waits.Call(ctx, "work", nil)
				return err
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if _, err := waits.Call(ctx, "work", nil); !errors.Is(err, relay.ErrFull) {
				t.Errorf("beyond MaxWaiters: %v", err)
			}
			for range 2 { // makes space, and takes the second request
				d, err := sub.Next(ctx)
				if err != nil {
					return err
				}
				if err := bus.TryPublish(&relay.Envelope{Kind: relay.KindReply, Subject: d.ReplyTo, ID: d.ID, Token: d.Token}); err != nil {
					return err
				}
			}
			return nil
		})
		if s := waits.Stats(); s.Refused != 1 || s.Waiting != 0 || s.Replied != 2 {
			t.Errorf("%+v", s)
		}
		return errors.Join(err, waits.Close(), fails.Close())
	})
}

// TestCallThatEndsWhileItIsSent: one group has the request, and another one has a full queue. The
// handler's context ends with the call.
func TestCallThatEndsWhileItIsSent(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
	entered, ended := make(chan bool), make(chan error)
	serve(t, bus, "work", relay.ServeOptions{Group: "idle"}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "cancel":
			entered <- true
			<-ctx.Done()
			ended <- ctx.Err()
		case "expire":
			<-ctx.Done()
		}
		return nil, ctx.Err()
	})
	sub, err := bus.Subscribe(t.Context(), "work", "full")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := bus.TryPublish(&relay.Envelope{Subject: "work"}); err != nil {
		t.Fatal(err)
	}
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { <-entered; cancel() }()
	if _, err := c.Call(ctx, "work", []byte("cancel")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s := c.Stats(); s.Canceled != 1 || s.CancelsSent != 1 {
		t.Errorf("%+v", s)
	}
	_, err = c.Do(t.Context(), relay.Envelope{Subject: "work", Body: []byte("expire"), Deadline: 20 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) { // of the call, or of its handler if that was first
		t.Error(err)
	}
	if s := c.Stats(); s.TimedOut+s.Replied != 1 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	before := c.Stats().Replied
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() {
		until.Tried(func() bool { return c.Stats().Replied > before })
		cancel()
	}()
	if _, err := c.Call(ctx, "work", []byte("reply")); err != nil {
		t.Errorf("a call that was answered: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseEndsCallsThatWaitForSpace in a full queue: of a task, and of a goroutine.
func TestCloseEndsCallsThatWaitForSpace(t *testing.T) {
	full := func(ctx context.Context) *relay.Caller {
		bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
		if _, err := bus.Subscribe(ctx, "work", ""); err != nil {
			t.Fatal(err)
		}
		if err := bus.TryPublish(&relay.Envelope{Subject: "work"}); err != nil {
			t.Fatal(err)
		}
		return newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Hour})
	}
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			c := full(ctx)
			n.Go(func(ctx context.Context) error {
				if _, err := c.Call(ctx, "work", nil); !errors.Is(err, relay.ErrClosed) {
					t.Errorf("Call: %v", err)
				}
				return nil
			})
			n.Go(func(ctx context.Context) error {
				if s, err := c.Stream(ctx, relay.Envelope{Subject: "work"}); err == nil {
					if _, err := s.Next(ctx); !errors.Is(err, relay.ErrClosed) {
						t.Errorf("Next: %v", err)
					}
				} else if !errors.Is(err, relay.ErrClosed) {
					t.Errorf("Stream: %v", err)
				}
				return nil
			})
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			before := spindle.Now(ctx)
			if err := c.Close(); !errors.Is(err, relay.ErrLeak) || !strings.Contains(err.Error(), "2 of them") {
				t.Errorf("Close: %v", err)
			}
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			if took := spindle.Now(ctx).Sub(before); took != 0 {
				t.Errorf("the calls end %v after Close", took)
			}
			return nil
		})
	})
	c := full(t.Context())
	ended := make(chan error)
	go func() { _, err := c.Call(t.Context(), "work", nil); ended <- err }()
	until.Holds(t, func() bool { return c.Stats().Waiting > 0 })
	if err := c.Close(); !errors.Is(err, relay.ErrLeak) {
		t.Errorf("Close: %v", err)
	}
	if err := <-ended; !errors.Is(err, relay.ErrClosed) {
		t.Errorf("Call of a goroutine: %v", err)
	}
}

// TestCloseEndsACallThatHasItsReply while it waits for space in the queue of another group. The
// reply is not lost.
func TestCloseEndsACallThatHasItsReply(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
		idle, err := bus.Subscribe(ctx, "work", "idle")
		if err != nil {
			return err
		}
		defer idle.Close()
		full, err := bus.Subscribe(ctx, "work", "full")
		if err != nil {
			return err
		}
		defer full.Close()
		if err := bus.TryPublish(&relay.Envelope{Subject: "work"}); err != nil {
			return err
		}
		if _, err := idle.Next(ctx); err != nil {
			return err
		}
		c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Hour})
		before := spindle.Now(ctx)
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				reply, err := c.Call(ctx, "work", nil)
				if string(reply) != "reply" {
					t.Errorf("%q, %v", reply, err)
				}
				return err
			})
			d, err := idle.Next(ctx)
			if err != nil {
				return err
			}
			err = bus.TryPublish(&relay.Envelope{Kind: relay.KindReply, Subject: d.ReplyTo, ID: d.ID, Token: d.Token, Body: []byte("reply")})
			return errors.Join(err, c.Close())
		})
		if took := spindle.Now(ctx).Sub(before); took != 0 {
			t.Errorf("it waits %v", took)
		}
		return err
	})
}

// TestRefusedRequestsAreNamed in the error, and calls that cannot be made say why.
func TestRefusedRequestsAreNamed(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{MaxBody: 8})
	serve(t, bus, "echo", relay.ServeOptions{}, echo)
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	for _, x := range []struct {
		e    relay.Envelope
		want error
		text string
	}{
		{relay.Envelope{Subject: "absent"}, relay.ErrNoResponder, "relay: no worker serves the subject: absent"},
		{relay.Envelope{Subject: "echo", Body: make([]byte, 9)}, relay.ErrTooLarge, "relay: envelope too large: echo, a body of 9 bytes"},
		{relay.Envelope{Subject: "echo", Deadline: -time.Second}, context.DeadlineExceeded, "relay: no reply from echo after 0s"},
	} {
		if _, err := c.Do(t.Context(), x.e); !errors.Is(err, x.want) || err.Error() != x.text {
			t.Errorf("%q", err)
		}
	}
	func() {
		defer func() {
			if v := recover(); v != "relay: a call with a nil context" {
				t.Errorf("panic: %v", v)
			}
		}()
		var none context.Context
		_, _ = c.Call(none, "echo", nil)
	}()
	if s := c.Stats(); s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
