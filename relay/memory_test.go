package relay_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// manyWaiters is how many calls wait at the same time.
const manyWaiters = 100_000

// TestManyWaiters: 100,000 calls wait at the same time, with at most 400 bytes each, and are
// cancelled together.
func TestManyWaiters(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{Queue: manyWaiters})
		sub, err := bus.Subscribe(ctx, "work", "")
		if err != nil {
			return err
		}
		defer sub.Close()
		c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Hour})
		streams := make([]*relay.Stream, manyWaiters)
		before := heap()
		for i := range streams {
			if streams[i], err = c.Stream(ctx, relay.Envelope{Subject: "work"}); err != nil {
				return err
			}
		}
		each := (heap() - before) / manyWaiters
		for _, s := range streams {
			s.Close()
		}
		t.Logf("%d bytes each", each)
		if each > 416 {
			t.Errorf("a waiter takes %d bytes", each)
		}
		if s := c.Stats(); s.Waiting != 0 || s.Canceled != manyWaiters {
			t.Errorf("%+v", s)
		}
		return c.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
