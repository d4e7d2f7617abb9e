package cosync_test

import (
	"context"
	"errors"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
)

// TestInboxKeepsValuesWhenAReadersLoopCloses: a task waits in Get, its loop is closed, and
// at about the same time a goroutine puts a value. The task gets the value, or it stays in
// the inbox.
func TestInboxKeepsValuesWhenAReadersLoopCloses(t *testing.T) {
	for _, when := range []string{"before", "meanwhile", "after"} {
		t.Run(when, func(t *testing.T) {
			for i := range short.Of(1000) {
				in := cosync.NewInbox[int](1)
				l, err := loop.New(loop.Options{})
				if err != nil {
					t.Fatal(err)
				}
				got := -1
				var failure error
				spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
					if got, failure = in.Get(ctx); failure != nil {
						got = -1
					}
					return failure
				}, nil)
				if _, err := l.RunOnce(0); err != nil {
					t.Fatal(err)
				}
				put := make(chan error, 1)
				send := func() { put <- in.Put(context.Background(), i) }
				switch when {
				case "before":
					send()
				case "meanwhile":
					go send()
				}
				if err := l.Close(); err != nil {
					t.Fatalf("Close: %v", err)
				}
				if when == "after" {
					send()
				}
				if err := <-put; err != nil {
					t.Fatalf("Put: %v", err)
				}
				left, err := in.TryGet()
				if (got == i) == (err == nil && left == i) {
					t.Fatalf("round %d: the task got %d (%v), and %d is left (%v)", i, got, failure, left, err)
				}
			}
		})
	}
}

// TestInboxKeepsValuesWhenAWritersLoopCloses: a task waits in Put as its loop is closed.
// Its value is in the inbox, or its Put has failed.
func TestInboxKeepsValuesWhenAWritersLoopCloses(t *testing.T) {
	for i := range short.Of(1000) {
		out := cosync.NewInbox[int](1)
		l, err := loop.New(loop.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var failure error
		spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
			failure = errors.Join(out.Put(ctx, 1), out.Put(ctx, 2))
			return failure
		}, nil)
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
		got := make(chan int, 2)
		go func() {
			v, _ := out.Get(context.Background())
			got <- v
		}()
		if err := l.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if first := <-got; first != 1 {
			t.Fatalf("round %d: got %d", i, first)
		}
		left, err := out.TryGet()
		if (failure == nil) != (err == nil && left == 2) {
			t.Fatalf("round %d: the second Put returned %v, and %d is left (%v)", i, failure, left, err)
		}
	}
}
