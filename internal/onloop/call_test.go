package onloop_test

import (
	"context"
	"errors"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

// running returns a loop that runs until the test ends.
func running(t *testing.T) *loop.Loop {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	t.Cleanup(func() {
		l.Stop()
		if err := errors.Join(<-ended, l.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestCallReturnsTheValueOfDone(t *testing.T) {
	l := running(t)
	for name, start := range map[string]func(done func(int)){
		"called by start": func(done func(int)) { done(7) },
		"called later":    func(done func(int)) { l.CallSoon(func() { done(7) }) },
	} {
		got, err := onloop.Call(t.Context(), l, "the test", func(done func(int)) {
			if !l.Owns() {
				t.Error("start does not run on the loop")
			}
			start(done)
		})
		if got != 7 || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestCallStopsOnlyBeforeItStarts ends ctx while start runs: the result counts.
func TestCallStopsOnlyBeforeItStarts(t *testing.T) {
	l := running(t)
	ctx, stop := context.WithCancel(t.Context())
	got, err := onloop.Call(ctx, l, "the test", func(done func(int)) {
		stop()
		l.CallSoon(func() { done(7) })
	})
	if got != 7 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestStoppedCallDoesNotStart(t *testing.T) {
	l, err := loop.New(loop.Options{}) // does not run, so that stop is first
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("why")
	stop(why)
	if _, err := onloop.Call(ctx, l, "the test", func(func(int)) { t.Error("started") }); err != why {
		t.Error(err)
	}
	l.RunOnce(0)
}

func TestCallOnAClosedLoopFails(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	posted := make(chan struct{})
	go func() {
		close(posted)
		_, err := onloop.Call(t.Context(), l, "the test", func(func(int)) { t.Error("started") })
		result <- err
	}()
	<-posted // the call is before Close or after it
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; err != loop.ErrClosed {
		t.Error(err)
	}
}

func TestCallInATask(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		for name, start := range map[string]func(done func(int)){
			"called by start": func(done func(int)) { done(7) },
			"called later":    func(done func(int)) { l.CallSoon(func() { done(7) }) },
		} {
			if got, err := onloop.Call(ctx, l, "the test", start); got != 7 || err != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCanceledCallInATask: a value that has come counts, and a later one has no effect.
func TestCanceledCallInATask(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			var late func(int)
			_, err := onloop.Call(ctx, l, "the test", func(done func(int)) {
				late = done
				l.CallSoon(func() { s.Cancel(nil) })
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled while it waits: %v", err)
			}
			late(7)
			got, err := onloop.Call(ctx, l, "the test", func(done func(int)) { done(7) })
			if got != 7 || err != nil {
				t.Errorf("cancelled before, with a value: %v, %v", got, err)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCallInATaskOfAnotherLoop: the task waits, and its loop goes on.
func TestCallInATaskOfAnotherLoop(t *testing.T) {
	l := running(t)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		own := spindle.LoopOf(ctx)
		got, err := onloop.Call(ctx, l, "the test", func(done func(int)) {
			_ = own.Post(func() { _ = l.Post(func() { done(7) }) }) // a loop that is blocked would not call it
		})
		if got != 7 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			got, err := onloop.Call(ctx, l, "the test", func(done func(int)) {
				_ = own.Post(func() {
					s.Cancel(nil)
					_ = l.Post(func() { done(7) })
				})
			})
			if got != 7 || err != nil {
				t.Errorf("cancelled after its start: %v, %v", got, err)
			}
			if _, err := onloop.Call(ctx, l, "the test", func(done func(int)) { done(7) }); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled before: %v", err)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCallInATaskOfALoopThatDoesNotRun: a cancellation and Close end the wait.
func TestCallInATaskOfALoopThatDoesNotRun(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	never := func(func(int)) { t.Error("started") }
	err = spindle.Run(t.Context(), func(ctx context.Context) error {
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			spindle.LoopOf(ctx).CallSoon(func() { s.Cancel(nil) })
			if _, err := onloop.Call(ctx, l, "the test", never); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		spindle.LoopOf(ctx).CallSoon(func() {
			l.RunOnce(0) // the first call must not start
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := onloop.Call(ctx, l, "the test", func(done func(int)) {}); err != loop.ErrClosed {
			t.Errorf("closed: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
