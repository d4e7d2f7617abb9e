package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle/relay"
)

// forward passes copies of the requests of front on to back, as change makes them.
func forward(t *testing.T, bus relay.Bus, change func(*relay.Envelope)) {
	t.Helper()
	sub, err := bus.Subscribe(t.Context(), "front", "proxy")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			d, err := sub.Next(context.Background())
			if err != nil {
				return
			}
			request := *d.Envelope
			request.Subject = "back"
			change(&request)
			if err := bus.TryPublish(&request); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		sub.Close()
		<-ended
	})
}

// TestReplyToAProxy: a program that passes a request on with an address of its own gets the
// reply, and not the caller of the first request.
func TestReplyToAProxy(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "back", relay.ServeOptions{}, echo)
	requests := make(chan *relay.Envelope, 1)
	l, err := bus.Listen(t.Context(), "proxy.replies", func(e *relay.Envelope) {
		first := <-requests
		reply := &relay.Envelope{Kind: relay.KindReply, ID: first.ID, Token: first.Token, Subject: first.ReplyTo, Body: append([]byte("by proxy: "), e.Body...)}
		if err := bus.TryPublish(reply); err != nil || e.ID != 7 {
			t.Errorf("%v, a reply to %d", err, e.ID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	forward(t, bus, func(e *relay.Envelope) {
		first := *e
		requests <- &first
		e.ReplyTo, e.ID, e.Token = "proxy.replies", 7, 0
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Minute})
	defer c.Close()
	reply, err := c.Call(t.Context(), "front", []byte("hello"))
	if string(reply) != "by proxy: hello" || err != nil {
		t.Errorf("%q, %v, %+v", reply, err, c.Stats())
	}
}

// TestStreamThatGetsASingleReply: a request for a stream that is passed on as one for a single
// reply gives a stream of one item.
func TestStreamThatGetsASingleReply(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "back", relay.ServeOptions{}, echo)
	forward(t, bus, func(e *relay.Envelope) { e.Seq = 0 })
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Minute})
	defer c.Close()
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "front", Body: []byte("hello")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if item, err := s.Next(t.Context()); string(item) != "hello" || err != nil {
		t.Errorf("%q, %v", item, err)
	}
}
