package relaytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

func (s *suite) replies(ctx context.Context) error {
	if _, _, err := s.serve(ctx, "echo", relay.ServeOptions{}, echo); err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	var bodies []string
	for i := range 400 {
		bodies = append(bodies, fmt.Sprint(i))
	}
	err = spindle.ForEach(ctx, 20, bodies, func(ctx context.Context, body string) error {
		reply, err := c.Call(ctx, "echo", []byte(body))
		if err == nil && string(reply) != body {
			err = fmt.Errorf("%q gets %q", body, reply)
		}
		return err
	})
	if err != nil {
		return err
	}
	if st := c.Stats(); st.Replied != 400 || st.Waiting != 0 {
		s.Errorf("%+v", st)
	}
	return c.Close()
}

func (s *suite) failures(ctx context.Context) error {
	_, _, err := s.serve(ctx, "fail", relay.ServeOptions{}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		if string(r.Body) == "panic" {
			panic("it panics")
		}
		return nil, errors.New("it fails")
	})
	if err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	for _, failing := range []struct {
		body string
		want relay.RemoteError
	}{
		{"panic", relay.RemoteError{Subject: "fail", Code: "panic", Message: "it panics"}},
		{"error", relay.RemoteError{Subject: "fail", Code: "error", Message: "it fails"}},
	} {
		_, err := c.Call(ctx, "fail", []byte(failing.body))
		if remote := (*relay.RemoteError)(nil); !errors.As(err, &remote) || *remote != failing.want {
			s.Errorf("%s: %v", failing.body, err)
		}
	}
	return c.Close()
}

func (s *suite) noResponder(ctx context.Context) error {
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	if _, err := c.Call(ctx, "absent", nil); !errors.Is(err, relay.ErrNoResponder) {
		s.Errorf("%v", err)
	}
	return c.Close()
}

// hold is a handler that waits for the end of its context, and counts.
type hold struct{ started, ended int }

func (h *hold) handle(ctx context.Context, _ *relay.Request) ([]byte, error) {
	h.started++
	defer func() { h.ended++ }()
	return nil, spindle.Sleep(ctx, 10*limit)
}

func (s *suite) cancels(ctx context.Context) error {
	var h hold
	w, _, err := s.serve(ctx, "hold", relay.ServeOptions{Concurrency: 1}, h.handle)
	if err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{Timeout: limit})
	if err != nil {
		return err
	}
	// The second call waits in the queue, so that its cancellation overtakes it.
	err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		for range 2 {
			n.Go(func(ctx context.Context) error {
				_, err := c.Call(ctx, "hold", nil)
				return err
			})
		}
		if err := s.until(ctx, "a handler runs", func() bool { return h.started == 1 && c.Stats().Waiting == 2 }); err != nil {
			return err
		}
		n.Scope().Cancel(nil)
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.until(ctx, "the worker knows", func() bool { return w.Stats().Canceled+w.Stats().Revoked == 2 }); err != nil {
		return err
	}
	if st := c.Stats(); st.Canceled != 2 || st.Waiting != 0 || h.started != h.ended {
		s.Errorf("%+v, %+v", st, h)
	}
	return c.Close()
}

func (s *suite) deadlines(ctx context.Context) error {
	var left time.Duration
	started, ended := 0, 0
	_, _, err := s.serve(ctx, "slow", relay.ServeOptions{}, func(ctx context.Context, _ *relay.Request) ([]byte, error) {
		at, _ := ctx.Deadline()
		left = at.Sub(spindle.Now(ctx))
		started++
		defer func() { ended++ }()
		return nil, spindle.Sleep(ctx, 10*limit)
	})
	if err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	deadline := 300 * time.Millisecond
	for ; ; deadline *= 2 { // until the handler starts before it has passed
		_, err = c.Do(ctx, relay.Envelope{Subject: "slow", Deadline: deadline})
		if !errors.Is(err, context.DeadlineExceeded) { // of the caller, or of the handler if that was first
			return fmt.Errorf("with a deadline of %v: %w", deadline, err)
		}
		if left > 0 {
			break
		}
	}
	if err := s.until(ctx, "the handler has ended", func() bool { return ended == started }); err != nil {
		return err
	}
	if left > deadline {
		s.Errorf("the handler has %v", left)
	}
	return c.Close()
}

func (s *suite) streams(ctx context.Context) error {
	const items, window = 100, 4
	sent := 0
	_, _, err := s.serve(ctx, "count", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		for ; sent < items; sent++ {
			if err := r.Send(ctx, fmt.Append(nil, sent)); err != nil {
				return nil, err
			}
		}
		return []byte("end"), nil
	})
	if err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{Window: window})
	if err != nil {
		return err
	}
	st, err := c.Stream(ctx, relay.Envelope{Subject: "count"})
	if err != nil {
		return err
	}
	defer st.Close()
	for i := range items {
		item, err := st.Next(ctx)
		if err != nil || string(item) != fmt.Sprint(i) {
			return fmt.Errorf("item %d is %q, %w", i, item, err)
		}
		if sent > i+1+2*window {
			s.Errorf("%d were sent, and %d read", sent, i+1)
		}
	}
	if item, err := st.Next(ctx); string(item) != "end" || err != nil {
		s.Errorf("the last is %q, %v", item, err)
	}
	if _, err := st.Next(ctx); err != io.EOF {
		s.Errorf("after the end: %v", err)
	}
	if err := s.emptyItems(ctx, c); err != nil {
		return err
	}
	return c.Close()
}

// emptyItems: an empty item is one as any other, but an empty result is not an item.
func (s *suite) emptyItems(ctx context.Context, c *relay.Caller) error {
	_, _, err := s.serve(ctx, "empty", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		return []byte{}, r.Send(ctx, []byte{})
	})
	if err != nil {
		return err
	}
	st, err := c.Stream(ctx, relay.Envelope{Subject: "empty"})
	if err != nil {
		return err
	}
	defer st.Close()
	if item, err := st.Next(ctx); len(item) > 0 || err != nil {
		s.Errorf("an empty item is %q, %v", item, err)
	}
	if item, err := st.Next(ctx); err != io.EOF {
		s.Errorf("after an empty item: %q, %v", item, err)
	}
	return nil
}

func (s *suite) closedStream(ctx context.Context) error {
	var failure error
	_, _, err := s.serve(ctx, "endless", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		for failure == nil {
			failure = r.Send(ctx, nil)
		}
		return nil, failure
	})
	if err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	st, err := c.Stream(ctx, relay.Envelope{Subject: "endless"})
	if err != nil {
		return err
	}
	if _, err := st.Next(ctx); err != nil {
		return err
	}
	st.Close()
	if err := s.until(ctx, "the handler has ended", func() bool { return failure != nil }); err != nil {
		return err
	}
	if !errors.Is(failure, context.Canceled) {
		s.Errorf("%v", failure)
	}
	return c.Close()
}

func (s *suite) headers(ctx context.Context) error {
	var got relay.Envelope
	var trace tracing.Context
	_, _, err := s.serve(ctx, "look", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		got, trace = *r.Envelope, tracing.Of(ctx)
		return nil, nil
	})
	if err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	parent, err := tracing.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err != nil {
		return err
	}
	parent.State = "vendor=value,other=1"
	e := relay.Envelope{Subject: "look", Headers: map[string]string{"Color": "red"}, Trace: parent}
	if _, err := c.Do(ctx, e); err != nil {
		return err
	}
	if got.Headers["Color"] != "red" || got.Attempt != 1 || got.Subject != "look" {
		s.Errorf("%+v", got)
	}
	if trace != parent {
		s.Errorf("trace %v, of %v", trace, parent)
	}
	bus, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if err := bus.Publish(tracing.With(ctx, parent), &relay.Envelope{Subject: "look", Headers: map[string]string{"Color": "blue"}}); err != nil {
		return err
	}
	if err := s.until(ctx, "the job was handled", func() bool { return got.Headers["Color"] == "blue" }); err != nil {
		return err
	}
	if trace != parent {
		s.Errorf("the trace of a job is %v, not that of its context, %v", trace, parent)
	}
	return c.Close()
}
