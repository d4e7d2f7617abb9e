package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/tracing"
)

// newCaller makes a Caller that is closed when the test ends.
func newCaller(t testing.TB, ctx context.Context, bus relay.Bus, o relay.CallerOptions) *relay.Caller {
	t.Helper()
	c, err := relay.NewCaller(ctx, bus, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve runs a worker on goroutines until the test ends, and returns when it has subscribed.
func serve(t testing.TB, bus relay.Bus, subject string, o relay.ServeOptions, h relay.Handler) (w *relay.Worker, stop func() error) {
	t.Helper()
	w = relay.NewWorker(bus)
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	o.Ready = func() { close(ready) }
	go func() { ended <- w.Serve(ctx, subject, h, o) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	return w, stop
}

func echo(_ context.Context, r *relay.Request) ([]byte, error) { return r.Body, nil }

func TestCallFromGoroutines(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{Queue: 2})
	serve(t, bus, "echo", relay.ServeOptions{Concurrency: 3}, echo)
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	var all sync.WaitGroup
	for g := range 10 {
		all.Go(func() {
			for i := range 100 {
				body := fmt.Sprint(g, ".", i)
				if reply, err := c.Call(t.Context(), "echo", []byte(body)); err != nil || string(reply) != body {
					t.Errorf("%q, %v", reply, err)
				}
			}
		})
	}
	all.Wait()
	if s := c.Stats(); s.Replied != 1000 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestOneCallerOnSeveralLoops: each task is woken on its own loop.
func TestOneCallerOnSeveralLoops(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "echo", relay.ServeOptions{}, echo)
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	var all sync.WaitGroup
	for g := range 3 {
		all.Go(func() {
			err := spindle.Run(t.Context(), func(ctx context.Context) error {
				return spindle.ForEach(ctx, 8, make([]int, 300), func(ctx context.Context, _ int) error {
					body := fmt.Sprint(g)
					reply, err := c.Call(ctx, "echo", []byte(body))
					if err == nil && string(reply) != body {
						err = fmt.Errorf("loop %d gets %q", g, reply)
					}
					return err
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestStrayReplies are counted, and reach no call: not even the next one in the same slot.
func TestStrayReplies(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{})
		sub, err := bus.Subscribe(ctx, "work", "")
		if err != nil {
			return err
		}
		defer sub.Close()
		c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Second})
		reply := func(to *relay.Envelope, body string) {
			t.Helper()
			if err := bus.TryPublish(&relay.Envelope{Kind: relay.KindReply, Subject: to.ReplyTo, ID: to.ID, Token: to.Token, Body: []byte(body)}); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Call(ctx, "work", nil); !errors.Is(err, spindle.ErrTimeout) {
			t.Error(err)
		}
		first, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				got, err := c.Call(ctx, "work", nil)
				if string(got) != "right" {
					t.Errorf("%q", got)
				}
				return err
			})
			second, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			if uint32(first.ID) != uint32(second.ID) {
				t.Errorf("the calls have the slots %d and %d", uint32(first.ID), uint32(second.ID))
			}
			reply(first.Envelope, "late")
			reply(&relay.Envelope{ReplyTo: second.ReplyTo, ID: second.ID + 1<<32, Token: second.Token}, "from the future")
			reply(&relay.Envelope{ReplyTo: second.ReplyTo, ID: 1<<64 - 1, Token: second.Token}, "unknown")
			reply(&relay.Envelope{ReplyTo: second.ReplyTo, ID: 0, Token: second.Token}, "unknown")
			reply(&relay.Envelope{ReplyTo: second.ReplyTo, ID: second.ID}, "without the token")
			reply(&relay.Envelope{ReplyTo: second.ReplyTo, ID: second.ID, Token: second.Token + 1}, "with another token")
			bus.TryPublish(&relay.Envelope{Kind: relay.KindRequest, Subject: second.ReplyTo, ID: second.ID, Token: second.Token})
			reply(second.Envelope, "right")
			reply(second.Envelope, "again")
			return nil
		})
		s := c.Stats()
		if s.Late != 1 || s.Unknown != 6 || s.Duplicate != 1 || s.Replied != 1 || s.TimedOut != 1 {
			t.Errorf("%+v", s)
		}
		return errors.Join(err, c.Close())
	})
}

func matches(text, pattern string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// TestCloseReportsLeaks, ends the calls that wait, and cancels their handlers.
func TestCloseReportsLeaks(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			bus := relay.NewLocal(relay.LocalOptions{})
			w := relay.NewWorker(bus)
			n.Go(func(ctx context.Context) error {
				return w.Serve(ctx, "work", func(ctx context.Context, _ *relay.Request) ([]byte, error) {
					return nil, spindle.Sleep(ctx, time.Hour)
				}, relay.ServeOptions{InTasks: true})
			})
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Minute})
			trace, err := tracing.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			if err != nil {
				return err
			}
			s, err := c.Stream(tracing.With(ctx, trace), relay.Envelope{Subject: "work"})
			if err != nil {
				return err
			}
			n.Go(func(ctx context.Context) error {
				if _, err := c.Call(ctx, "work", nil); !errors.Is(err, relay.ErrClosed) {
					t.Errorf("Call: %v", err)
				}
				return nil
			})
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			if err := c.Close(); !errors.Is(err, relay.ErrLeak) || !matches(err.Error(), `^relay: calls wait: 2 of them at Close; .*\n`+
				`\tstream \d+ of work, age 1s, 59s left, trace 0af7651916cd43dd8448eb211c80319c\n`+
				`\tcall \d+ of work, age 1s, 59s left$`) {
				t.Errorf("Close: %v", err)
			}
			if _, err := s.Next(ctx); !errors.Is(err, relay.ErrClosed) {
				t.Errorf("Next: %v", err)
			}
			if _, err := c.Call(ctx, "work", nil); !errors.Is(err, relay.ErrClosed) {
				t.Errorf("Call after Close: %v", err)
			}
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			if s := w.Stats(); s.Running != 0 || s.Canceled != 2 {
				t.Errorf("%+v", s)
			}
			n.Scope().Cancel(nil)
			return c.Close()
		})
	})
}

// TestCloseListsTheCallsThatItEnds: the list has each call that Close ends, and no other, while
// goroutines begin and end calls.
func TestCloseListsTheCallsThatItEnds(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "echo", relay.ServeOptions{}, echo)
	for range 200 {
		c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					if _, err := c.Call(t.Context(), "echo", nil); err != nil {
						return // it is closed
					}
				}
			})
		}
		until.Holds(t, func() bool { return c.Stats().Replied > 0 })
		err := c.Close()
		all.Wait()
		leaked := 0
		if errors.Is(err, relay.ErrLeak) {
			fmt.Sscanf(err.Error(), "relay: calls wait: %d", &leaked)
		}
		if s := c.Stats(); leaked != int(s.Canceled) {
			t.Fatalf("%d calls are listed, and %d were ended", leaked, s.Canceled)
		}
	}
}

// TestScopeWithADeadline ends a call with its own error, which MoveOnAfter recognizes.
func TestScopeWithADeadline(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{})
		sub, err := bus.Subscribe(ctx, "work", "")
		if err != nil {
			return err
		}
		defer sub.Close()
		c := newCaller(t, ctx, bus, relay.CallerOptions{})
		expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			_, err := c.Call(ctx, "work", nil)
			return err
		})
		if !expired || err != nil {
			t.Errorf("%v, %v", expired, err)
		}
		if d, err := sub.Next(ctx); err != nil || d.Deadline != time.Second {
			t.Errorf("the request has %v left, %v", d.Deadline, err)
		}
		return c.Close()
	})
}

func TestBrokenStream(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{})
		sub, err := bus.Subscribe(ctx, "work", "")
		if err != nil {
			return err
		}
		defer sub.Close()
		c := newCaller(t, ctx, bus, relay.CallerOptions{Window: 2})
		for name, seqs := range map[string][]uint32{"a gap": {2}, "more than the window": {1, 2, 3}} {
			s, err := c.Stream(ctx, relay.Envelope{Subject: "work"})
			if err != nil {
				return err
			}
			d, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			for _, seq := range seqs {
				if err := bus.TryPublish(&relay.Envelope{Kind: relay.KindItem, Subject: d.ReplyTo, ID: d.ID, Token: d.Token, Seq: seq, ReplyTo: "_worker.w"}); err != nil {
					return err
				}
			}
			for err = nil; err == nil; {
				_, err = s.Next(ctx)
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", name, err)
			}
		}
		return c.Close()
	})
}

// badListener is a bus with listeners that fail to close.
type badListener struct{ relay.Bus }

var errListener = errors.New("listener: not closed")

func (b badListener) Listen(ctx context.Context, subject string, deliver func(*relay.Envelope)) (io.Closer, error) {
	l, err := b.Bus.Listen(ctx, subject, deliver)
	return failingListener{l}, err
}

type failingListener struct{ io.Closer }

func (l failingListener) Close() error {
	l.Closer.Close()
	return errListener
}

// TestCloseReportsEverything: the calls that wait are listed although the listener fails, too.
func TestCloseReportsEverything(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, func(ctx context.Context, _ *relay.Request) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c, err := relay.NewCaller(t.Context(), badListener{bus}, relay.CallerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); !errors.Is(err, relay.ErrLeak) || !errors.Is(err, errListener) {
		t.Errorf("Close: %v", err)
	}
}
