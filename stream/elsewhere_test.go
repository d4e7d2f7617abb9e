package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// otherLoop runs a loop until end.
func otherLoop(t *testing.T) (l *loop.Loop, end func()) {
	t.Helper()
	l, err := loop.New(loop.Options{})
	check(t, err)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	return l, func() {
		l.Stop()
		if err := errors.Join(<-ended, l.Close()); err != nil {
			t.Error(err)
		}
	}
}

// answers fails the test if the loop is blocked.
func answers(t *testing.T, ctx context.Context, l *loop.Loop) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, until.Limit)
	defer cancel()
	if _, err := spindle.CallOn(ctx, l, func(context.Context) (int, error) { return 0, nil }); err != nil {
		t.Errorf("the loop of the task that waits is blocked: %v", err)
	}
}

// TestConnInATaskOfAnotherLoop checks that the task waits, and its loop goes on.
func TestConnInATaskOfAnotherLoop(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		other, end := otherLoop(t)
		defer end()
		a, b := pair(t, ctx, "tcp")
		reading := make(chan bool, 1)
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				got, err := spindle.CallOn(ctx, other, func(context.Context) (string, error) {
					reading <- true
					p := make([]byte, 5)
					_, err := io.ReadFull(a, p)
					return string(p), err
				})
				if got != "hello" {
					t.Errorf("got %q, %v", got, err)
				}
				return nil
			})
			if _, err := spindle.Blocking(ctx, func() (bool, error) { return <-reading, nil }); err != nil {
				return err
			}
			answers(t, ctx, other)
			_, err := io.WriteString(b, "hello")
			return err
		})
		check(t, err)
		_, err = spindle.CallOn(ctx, other, func(context.Context) (int, error) { return io.WriteString(a, "again") })
		check(t, err)
		p := make([]byte, 5)
		if _, err := io.ReadFull(b, p); string(p) != "again" {
			t.Errorf("got %q, %v", p, err)
		}
	})
}

// TestConnInACancelledTaskOfAnotherLoop checks that the read ends, and the next one gets the bytes.
func TestConnInACancelledTaskOfAnotherLoop(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		other, end := otherLoop(t)
		defer end()
		a, b := pair(t, ctx, "tcp")
		_, err := spindle.CallOn(ctx, other, func(ctx context.Context) (int, error) {
			late, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(context.Context) error {
				_, err := a.Read(make([]byte, 1))
				var canceled *spindle.Canceled
				if !errors.As(err, &canceled) {
					t.Errorf("got %v, want the cancellation", err)
				}
				return err
			})
			if !late {
				t.Error("the read was not cancelled")
			}
			return 0, err
		})
		check(t, err)
		_, err = io.WriteString(b, "x")
		check(t, err)
		p := make([]byte, 1)
		if _, err := a.Read(p); string(p) != "x" {
			t.Errorf("got %q, %v", p, err)
		}
	})
}

// TestWriteInACancelledTaskOfAnotherLoop checks that it returns how much it wrote.
func TestWriteInACancelledTaskOfAnotherLoop(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		other, end := otherLoop(t)
		defer end()
		a, b := pair(t, ctx, "tcp")
		var n int
		check(t, spindle.WithNursery(ctx, func(ctx context.Context, writing *spindle.Nursery) error {
			writing.Go(func(ctx context.Context) error {
				_, err := spindle.CallOn(ctx, other, func(context.Context) (_ bool, err error) {
					n, err = a.Write(make([]byte, 64<<20)) // more than the socket takes
					return false, err
				})
				return err
			})
			_, err := io.ReadFull(b, make([]byte, 1))
			writing.Scope().Cancel(nil)
			return err
		}))
		check(t, a.CloseWrite())
		got, err := io.Copy(io.Discard, b)
		check(t, err)
		if got++; got != int64(n) {
			t.Errorf("%d bytes came, and the cancelled write returned %d", got, n)
		}
	})
}

// TestConnOfAnEndedRunInATaskOfAnotherLoop checks that calls fail at once, even if the loop of the connection does not run.
func TestConnOfAnEndedRunInATaskOfAnotherLoop(t *testing.T) {
	l, err := loop.New(loop.Options{})
	check(t, err)
	defer l.Close()
	var ln *stream.Listener
	check(t, spindle.Options{On: l}.Run(t.Context(), func(ctx context.Context) (err error) {
		ln, err = stream.Listen(ctx, "tcp", "127.0.0.1:0")
		return err
	}))
	check(t, spindle.Run(t.Context(), func(context.Context) error {
		if _, err := ln.Accept(); err == nil {
			return fmt.Errorf("no error")
		}
		return nil
	}))
}

// TestConnInACallbackOfAnotherLoop checks that it panics: it would block that loop.
func TestConnInACallbackOfAnotherLoop(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "tcp")
		got, err := spindle.Blocking(ctx, func() (got any, err error) {
			other, err := loop.New(loop.Options{})
			if err != nil {
				return nil, err
			}
			defer other.Close()
			other.CallSoon(func() {
				defer func() { got = recover() }()
				a.Read(make([]byte, 1))
			})
			_, err = other.RunOnce(0)
			return got, err
		})
		if got != "stream: Conn.Read called from a callback of a loop; start a task" {
			t.Errorf("got %v, %v", got, err)
		}
	})
}
