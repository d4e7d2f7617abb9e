package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/spindleloop/spindle/relay"
)

// readAll reads a stream with a key to its end.
func readAll(t *testing.T, c *relay.Caller, key string) (items []string, err error) {
	t.Helper()
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "count", Headers: map[string]string{relay.IdempotencyKey: key}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		item, err := s.Next(t.Context())
		if err != nil {
			return items, err
		}
		items = append(items, string(item))
	}
}

// TestReplayedStream has all of its items.
func TestReplayedStream(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	w, _ := serve(t, bus, "count", relay.ServeOptions{Results: relay.NewResults(10)}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		for i := range 50 { // more than the window
			if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
				return nil, err
			}
		}
		return []byte("end"), nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	defer c.Close()
	for range 3 {
		items, err := readAll(t, c, "k")
		if len(items) != 51 || items[0] != "0" || items[50] != "end" || err != io.EOF {
			t.Errorf("%q, %v", items, err)
		}
	}
	if s := w.Stats(); s.Replayed != 2 {
		t.Errorf("%+v", s)
	}
	_, err := c.Do(t.Context(), relay.Envelope{Subject: "count", Headers: map[string]string{relay.IdempotencyKey: "k"}})
	if !errors.As(err, new(*relay.RemoteError)) {
		t.Errorf("a call with the key of a stream: %v", err)
	}
}

// TestStreamTooLargeToKeep fails when it is opened again, and does not repeat the effect.
func TestStreamTooLargeToKeep(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	effects := 0
	serve(t, bus, "count", relay.ServeOptions{Results: relay.NewResults(10)}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		effects++
		for range 5 {
			if err := r.Send(ctx, make([]byte, 4<<20)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	defer c.Close()
	if items, err := readAll(t, c, "k"); len(items) != 5 || err != io.EOF {
		t.Errorf("%d items, %v", len(items), err)
	}
	items, err := readAll(t, c, "k")
	if remote := new(relay.RemoteError); len(items) != 0 || !errors.As(err, &remote) || remote.Code != "too-large" {
		t.Errorf("again: %d items, %v", len(items), err)
	}
	if effects != 1 {
		t.Errorf("%d effects", effects)
	}
}
