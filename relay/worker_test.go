package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// TestHandlerThatBlocks does not block the loop of the caller.
func TestHandlerThatBlocks(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	release := make(chan struct{})
	serve(t, bus, "block", relay.ServeOptions{}, func(context.Context, *relay.Request) ([]byte, error) {
		<-release
		return nil, nil
	})
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Minute})
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range 100 {
				n.Go(func(ctx context.Context) error {
					_, err := c.Call(ctx, "block", nil)
					return err
				})
			}
			for range 1000 { // the loop runs while all calls wait
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			if s := c.Stats(); s.Waiting != 100 {
				t.Errorf("%+v", s)
			}
			close(release)
			return nil
		})
		return errors.Join(err, c.Close())
	})
	if err != nil {
		t.Error(err)
	}
}

func TestConcurrencyIsLimited(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	inside, most := make(chan struct{}, 100), 0
	next := make(chan struct{})
	w, _ := serve(t, bus, "work", relay.ServeOptions{Concurrency: 3}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		inside <- struct{}{}
		<-next
		return nil, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	ended := make(chan error, 10)
	for range 10 {
		go func() {
			_, err := c.Call(t.Context(), "work", nil)
			ended <- err
		}()
	}
	for range 10 {
		<-inside
		most = max(most, w.Stats().Running)
		next <- struct{}{}
	}
	for range 10 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if most > 3 {
		t.Errorf("%d handlers at a time", most)
	}
	c.Close()
}

// TestHandlerThatFails ends its own call only.
func TestHandlerThatFails(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{MaxBody: 100})
	w, _ := serve(t, bus, "fail", relay.ServeOptions{Concurrency: 1}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "panic":
			panic("a panic")
		case "goexit":
			runtime.Goexit()
		case "large":
			return make([]byte, 101), nil
		case "send":
			return nil, r.Send(t.Context(), nil)
		}
		return nil, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	for body, code := range map[string]string{
		"panic": "panic", "goexit": "panic", "large": "too-large", "send": "error",
	} {
		_, err := c.Call(t.Context(), "fail", []byte(body))
		if remote := (*relay.RemoteError)(nil); !errors.As(err, &remote) || remote.Code != code {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := c.Call(t.Context(), "fail", nil); err != nil {
		t.Error(err)
	}
	if _, err := c.Call(t.Context(), "fail", make([]byte, 101)); !errors.Is(err, relay.ErrTooLarge) {
		t.Error(err)
	}
	if s := w.Stats(); s.Panics != 2 {
		t.Errorf("%+v", s)
	}
	c.Close()
}

// TestContextOfAHandler obeys the laws of contexts, and ends when the caller leaves.
func TestContextOfAHandler(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	type key struct{}
	entered, verdict := make(chan struct{}), make(chan error, 1)
	serve(t, bus, "work", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		_, limited := ctx.Deadline()
		child, cancel := context.WithCancel(context.WithValue(ctx, key{}, 1))
		defer cancel()
		if ctx.Err() != nil || context.Cause(ctx) != nil || !limited || tracing.Of(child) != r.Trace {
			verdict <- errors.New("wrong from the start")
			return nil, nil
		}
		close(entered)
		<-child.Done()
		<-ctx.Done()
		verdict <- errors.Join(errors.New("ended"), child.Err(), ctx.Err())
		return nil, ctx.Err()
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-entered; leave() }()
	if _, err := c.Call(ctx, "work", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-verdict; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s := c.Stats(); s.Canceled != 1 || s.CancelsSent != 1 {
		t.Errorf("%+v", s)
	}
	c.Close()
}

// TestMessagesThatAreNotRequests start no handler.
func TestMessagesThatAreNotRequests(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	w, _ := serve(t, bus, "work", relay.ServeOptions{}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		t.Errorf("a handler got a %v", r.Kind)
		return nil, nil
	})
	kinds := []relay.Kind{relay.KindReply, relay.KindItem, relay.KindFailure, relay.KindCancel, relay.KindCredit, 200}
	for _, k := range kinds {
		if err := bus.Publish(t.Context(), &relay.Envelope{Kind: k, Subject: "work", ReplyTo: "elsewhere", ID: 7}); err != nil {
			t.Fatal(err)
		}
	}
	until.Holds(t, func() bool { return w.Stats().Unknown+w.Stats().Finished >= uint64(len(kinds)) })
	if s := w.Stats(); s.Unknown != uint64(len(kinds)) || s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

func TestDeadlineOfAHandler(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	polled, waited := make(chan error, 1), make(chan error, 1)
	w, _ := serve(t, bus, "work", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "poll": // without a timer of its own
			for ctx.Err() == nil {
				runtime.Gosched()
			}
			polled <- ctx.Err()
		case "wait":
			<-ctx.Done()
			waited <- ctx.Err()
		}
		return nil, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	// call reports false if the deadline passed before the handler started.
	call := func(body string, deadline time.Duration, ended chan error) bool {
		before := w.Stats().Revoked
		// The handler may notice the deadline first, and reply.
		_, err := c.Do(t.Context(), relay.Envelope{Subject: "work", Body: []byte(body), Deadline: deadline})
		if err != nil && !errors.Is(err, spindle.ErrTimeout) {
			t.Errorf("%s: %v", body, err)
		}
		until.Holds(t, func() bool { return len(ended) > 0 || w.Stats().Revoked > before })
		if len(ended) == 0 {
			return false
		}
		if err := <-ended; err == nil {
			t.Errorf("%s: the context has not ended", body)
		}
		return true
	}
	for body, ended := range map[string]chan error{"poll": polled, "wait": waited} {
		for deadline := 20 * time.Millisecond; !call(body, deadline, ended); deadline *= 2 {
		}
	}
	c.Close()
}

// TestServeDrains: handlers that run are finished, and their replies arrive.
func TestServeDrains(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	entered, release := make(chan struct{}), make(chan struct{})
	_, stop := serve(t, bus, "work", relay.ServeOptions{Drain: time.Minute}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		if r.ReplyTo != "" {
			close(entered)
			<-release
		}
		return []byte("done"), nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	reply := make(chan string)
	go func() {
		got, err := c.Call(t.Context(), "work", nil)
		reply <- string(got)
		if err != nil {
			t.Error(err)
		}
	}()
	<-entered
	ended := make(chan error)
	go func() { ended <- stop() }()
	until.Holds(t, func() bool { // it takes no more
		return errors.Is(bus.TryPublish(&relay.Envelope{Subject: "work"}), relay.ErrNoResponder)
	})
	close(release)
	if got := <-reply; got != "done" {
		t.Errorf("%q", got)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.Close()
}

// TestStragglers: a handler that ignores the end of its context does not keep Serve. It is counted
// as running until it returns.
func TestStragglers(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	answered := make(chan struct{})
	if _, err := bus.Listen(t.Context(), "replies", func(*relay.Envelope) { close(answered) }); err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}), make(chan struct{})
	w, stop := serve(t, bus, "work", relay.ServeOptions{Drain: time.Millisecond}, func(context.Context, *relay.Request) ([]byte, error) {
		close(entered)
		<-release
		return nil, nil
	})
	if err := bus.TryPublish(&relay.Envelope{Subject: "work", ReplyTo: "replies"}); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := stop(); err == nil || !strings.Contains(err.Error(), "1 handlers of work did not return after their contexts had ended") {
		t.Error(err)
	}
	if s := w.Stats(); s.Running != 1 || s.Finished != 0 {
		t.Errorf("while it runs: %+v", s)
	}
	close(release)
	<-answered
	if s := w.Stats(); s.Running != 0 || s.Finished != 1 {
		t.Errorf("when it has returned: %+v", s)
	}
}

// TestQueuedRequestsFail when the last worker leaves or the bus closes. One without a caller is logged.
func TestQueuedRequestsFail(t *testing.T) {
	for name, end := range map[string]func(bus relay.Bus, sub relay.Subscription){
		"the last worker leaves": func(_ relay.Bus, sub relay.Subscription) { sub.Close() },
		"the bus closes":         func(bus relay.Bus, _ relay.Subscription) { bus.Close() },
	} {
		var log strings.Builder
		bus := relay.NewLocal(relay.LocalOptions{ErrorLog: slog.New(slog.NewTextHandler(&log, nil))})
		sub, err := bus.Subscribe(t.Context(), "work", "g")
		if err != nil {
			t.Fatal(err)
		}
		c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
		s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"})
		if err != nil {
			t.Fatal(err)
		}
		if err := bus.TryPublish(&relay.Envelope{Subject: "work"}); err != nil { // no caller can be told
			t.Fatal(err)
		}
		end(bus, sub)
		if _, err := s.Next(t.Context()); !errors.Is(err, relay.ErrNoResponder) {
			t.Errorf("%s: %v", name, err)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "a request is lost") || !strings.Contains(text, "subject=work") {
			t.Errorf("%s: the log has %q", name, text)
		}
		c.Close()
	}
}

// TestRequestsWithoutCaller run at the same time: they have no ID, and are different anyway, even
// if their answers have the same address.
func TestRequestsWithoutCaller(t *testing.T) {
	for _, replyTo := range []string{"", "replies"} {
		bus := relay.NewLocal(relay.LocalOptions{})
		var replies atomic.Int32
		l, err := bus.Listen(t.Context(), "replies", func(*relay.Envelope) { replies.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		w, stop := serve(t, bus, "work", relay.ServeOptions{}, func(context.Context, *relay.Request) ([]byte, error) {
			<-release
			return nil, nil
		})
		for range 3 {
			if err := bus.TryPublish(&relay.Envelope{Subject: "work", ReplyTo: replyTo}); err != nil {
				t.Fatal(err)
			}
		}
		until.Holds(t, func() bool { s := w.Stats(); return s.Running+int(s.Duplicate) >= 3 })
		close(release)
		stop()
		if s := w.Stats(); s.Finished != 3 || s.Duplicate != 0 {
			t.Errorf("answers to %q: %+v", replyTo, s)
		}
		if n := replies.Load(); replyTo != "" && n != 3 {
			t.Errorf("%d answers", n)
		}
		l.Close()
	}
}
