package relaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// filling is a queue group that a test fills.
type filling struct {
	bus      relay.Bus
	sub      relay.Subscription
	accepted int // requests
	full     bool
	answered int // requests, by a Failure with the code "full"
}

// fill publishes requests that no member takes, until the queue is full or there are enough.
func (s *suite) fill(ctx context.Context) (*filling, error) {
	bus, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	f := &filling{bus: bus}
	l := spindle.LoopOf(ctx)
	answered := func(e *relay.Envelope) {
		if e.Kind == relay.KindFailure {
			f.answered++
		}
	}
	_, err = bus.Listen(ctx, "answers", func(e *relay.Envelope) {
		if l.Owns() {
			answered(e)
			return
		}
		_ = l.Post(func() { answered(e) })
	})
	if err != nil {
		return nil, err
	}
	if f.sub, err = bus.Subscribe(ctx, "work", "g"); err != nil {
		return nil, err
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	const enough = 3000
	for f.accepted < enough && !f.full {
		err := bus.TryPublish(f.request())
		switch {
		case err == nil:
			f.accepted++
		case errors.Is(err, relay.ErrFull) && s.c.Unseen: // it is only not sent yet
			err = spindle.Sleep(ctx, time.Millisecond)
		case errors.Is(err, relay.ErrFull):
			f.full, err = true, nil
		}
		if err != nil {
			return nil, fmt.Errorf("TryPublish: %w", err)
		}
	}
	return f, nil
}

func (f *filling) request() *relay.Envelope {
	return &relay.Envelope{Subject: "work", ReplyTo: "answers", ID: uint64(f.accepted + 1)}
}

// fullQueues: what was accepted is delivered, or answered by a Failure with the code "full".
func (s *suite) fullQueues(ctx context.Context) error {
	f, err := s.fill(ctx)
	if err != nil {
		return err
	}
	if !f.full && !s.c.Unseen {
		s.Errorf("TryPublish takes %d requests, and none is taken from the queue", f.accepted)
	}
	delivered := 0
	s.n.Go(func(ctx context.Context) error {
		for {
			if _, err := f.sub.Next(ctx); err != nil {
				return nil
			}
			delivered++
		}
	})
	err = spindle.FailAfter(ctx, limit/4, func(ctx context.Context) error {
		return s.until(ctx, "all requests are delivered or answered", func() bool { return delivered+f.answered >= f.accepted })
	})
	if err != nil || delivered+f.answered != f.accepted {
		s.Errorf("%d requests were accepted, %d delivered, %d answered; %v", f.accepted, delivered, f.answered, err)
	}
	return nil
}

// fullPublish: Publish waits while the queue is full, and ends with its context.
func (s *suite) fullPublish(ctx context.Context) error {
	if s.c.Unseen {
		return nil
	}
	f, err := s.fill(ctx)
	if err != nil || !f.full {
		return err
	}
	var scope *spindle.Scope
	var failure error
	returned := false
	publish := func(ctx context.Context, sc *spindle.Scope) error {
		scope = sc
		failure = f.bus.Publish(ctx, f.request())
		returned = true
		return failure
	}
	s.n.Go(func(ctx context.Context) error {
		if err := spindle.WithScope(ctx, publish); err != nil && !errors.Is(err, relay.ErrFull) {
			return err
		}
		return nil
	})
	if err := spindle.Sleep(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	if returned {
		s.Errorf("Publish does not wait while the queue is full: %v", failure)
		return nil
	}
	scope.Cancel(nil)
	for range 1000 { // turns of the loop, and time for a bus that needs it
		if returned {
			break
		}
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	if !returned {
		s.Errorf("Publish goes on when its context has ended")
	} else if !errors.Is(failure, context.Canceled) {
		s.Errorf("Publish, when its context has ended: %v", failure)
	}
	return s.publishAfterwards(ctx, f, returned)
}

// publishAfterwards: Publish that waits goes on when there is space.
func (s *suite) publishAfterwards(ctx context.Context, f *filling, canceled bool) error {
	returned := false
	var failure error
	s.n.Go(func(ctx context.Context) error {
		failure = f.bus.Publish(ctx, f.request())
		returned = true
		return nil
	})
	if err := spindle.Yield(ctx); err != nil {
		return err
	}
	most := f.accepted + 1
	if !canceled {
		most++
	}
	delivered := 0
	for delivered < most && !(returned && delivered >= f.accepted+1) {
		if _, err := f.sub.Next(ctx); err != nil {
			return err
		}
		delivered++
	}
	if err := s.until(ctx, "Publish has returned", func() bool { return returned }); err != nil {
		return err
	}
	if failure != nil {
		s.Errorf("Publish, when there is space: %v", failure)
	}
	return nil
}

// bodies arrive as they were sent, up to a size that every bus takes.
func (s *suite) bodies(ctx context.Context) error {
	if _, _, err := s.serve(ctx, "echo", relay.ServeOptions{}, echo); err != nil {
		return err
	}
	c, err := s.caller(ctx, relay.CallerOptions{})
	if err != nil {
		return err
	}
	for _, size := range []int{0, 1, 255, 999, 1000, 1001, 4096, 65_535, 65_536} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i * 31)
		}
		reply, err := c.Call(ctx, "echo", body)
		if err != nil || !bytes.Equal(reply, body) {
			s.Errorf("a body of %d bytes comes back with %d: %v", size, len(reply), err)
		}
	}
	return c.Close()
}

// tooLarge: a body that is larger than the bus allows is refused, and not cut or lost.
func (s *suite) tooLarge(ctx context.Context) error {
	bus, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if _, _, err := s.serve(ctx, "large", relay.ServeOptions{}, func(context.Context, *relay.Request) ([]byte, error) {
		return make([]byte, tooLarge), nil
	}); err != nil {
		return err
	}
	e := &relay.Envelope{Kind: relay.KindItem, Subject: "large", Body: make([]byte, tooLarge)}
	for name, err := range map[string]error{"Publish": bus.Publish(ctx, e), "TryPublish": bus.TryPublish(e)} { // any order: both were called already
		if !errors.Is(err, relay.ErrTooLarge) {
			s.Errorf("%s of %d bytes: %v", name, tooLarge, err)
		}
	}
	c, err := s.caller(ctx, relay.CallerOptions{Timeout: limit / 4})
	if err != nil {
		return err
	}
	_, err = c.Call(ctx, "large", nil)
	if remote := (*relay.RemoteError)(nil); !errors.As(err, &remote) || remote.Code != "too-large" {
		s.Errorf("a reply of %d bytes: %v", tooLarge, err)
	}
	return c.Close()
}

// tooLarge is a body that no bus takes.
const tooLarge = 100 << 20

// closedListener: deliver is not called after Close, nor does Next deliver.
func (s *suite) closedListener(ctx context.Context) error {
	bus, err := s.connect(ctx)
	if err != nil {
		return err
	}
	l := spindle.LoopOf(ctx)
	counting := func(n *int) func(*relay.Envelope) {
		return func(*relay.Envelope) {
			if l.Owns() {
				*n++
				return
			}
			_ = l.Post(func() { *n++ })
		}
	}
	var closed, open int
	first, err := bus.Listen(ctx, "news", counting(&closed))
	if err != nil {
		return err
	}
	second, err := bus.Listen(ctx, "news", counting(&open))
	if err != nil {
		return err
	}
	defer second.Close()
	sub, err := bus.Subscribe(ctx, "work", "g")
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	news := &relay.Envelope{Kind: relay.KindItem, Subject: "news"}
	if err := bus.Publish(ctx, news); err != nil {
		return err
	}
	if err := s.until(ctx, "both have it", func() bool { return closed == 1 && open == 1 }); err != nil {
		return err
	}
	if err := errors.Join(first.Close(), sub.Close()); err != nil {
		return err
	}
	for range 10 {
		if err := bus.Publish(ctx, news); err != nil {
			return err
		}
	}
	if err := s.until(ctx, "the other one has all", func() bool { return open == 11 }); err != nil {
		return err
	}
	if closed != 1 {
		s.Errorf("a listener that is closed gets %d envelopes", closed-1)
	}
	_, err = spindle.MoveOnAfter(ctx, limit/12, func(ctx context.Context) error {
		_, err := sub.Next(ctx)
		return err
	})
	if !errors.Is(err, relay.ErrClosed) {
		s.Errorf("Next after Close: %v", err)
	}
	return nil
}
