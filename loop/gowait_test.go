package loop_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// TestWaitInGo: whatever happens while the loop waits in Go's scheduler, the loop notices it.
func TestWaitInGo(t *testing.T) {
	for name, happen := range map[string]func(t *testing.T, l *loop.Loop, noticed func()){
		"post": func(t *testing.T, l *loop.Loop, noticed func()) {
			go l.Post(noticed)
		},
		"timer": func(t *testing.T, l *loop.Loop, noticed func()) {
			l.CallLater(time.Millisecond, noticed)
		},
		"earlier timer": func(t *testing.T, l *loop.Loop, noticed func()) {
			l.CallLater(time.Hour, func() {})
			l.CallLater(time.Millisecond, noticed)
		},
		"descriptor": func(t *testing.T, l *loop.Loop, noticed func()) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Error(err)
			}
			if err := l.AddReader(int(r.Fd()), func() {
				l.RemoveReader(int(r.Fd()))
				r.Close()
				w.Close()
				noticed()
			}); err != nil {
				t.Error(err)
			}
			time.AfterFunc(time.Millisecond, func() { w.Write([]byte("x")) })
		},
		"descriptor that is ready": func(t *testing.T, l *loop.Loop, noticed func()) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Error(err)
			}
			w.Write([]byte("x"))
			n := 0
			if err := l.AddReader(int(r.Fd()), func() { // again and again: it is not read
				l.Internal().ExpectPost()
				if n++; n == 3 {
					l.RemoveReader(int(r.Fd()))
					r.Close()
					w.Close()
					noticed()
				}
			}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, loop.Options{})
			if _, ok := l.Internal().Kernel().Poller.(kernel.Notifier); !ok {
				t.Skipf("%s cannot notify", l.Internal().Kernel().Name())
			}
			const rounds = 20
			left := rounds
			var round func()
			round = func() {
				if left--; left == 0 {
					l.Stop()
					return
				}
				happen(t, l, round)
				l.Internal().ExpectPost()
			}
			l.CallSoon(round)
			if err := l.Run(t.Context()); err != nil {
				t.Error(err)
			}
			if l.Internal().GoWaits() == 0 && name != "descriptor that is ready" {
				t.Error("it did not wait in Go")
			}
		})
	}
}

// TestWaitInGoEnds: Stop and the end of the context end a wait in Go's scheduler.
func TestWaitInGoEnds(t *testing.T) {
	for name, end := range map[string]func(l *loop.Loop, cancel func()){
		"Stop":   func(l *loop.Loop, _ func()) { l.Stop() },
		"cancel": func(_ *loop.Loop, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, loop.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l.CallSoon(func() {
				l.Internal().ExpectPost()
				time.AfterFunc(time.Millisecond, func() { end(l, cancel) })
			})
			if err := l.Run(ctx); err != context.Cause(ctx) {
				t.Error(err)
			}
		})
	}
}

// TestWaitInGoThatTakesLong: the loop stops to wait in Go's scheduler if that does not pay.
func TestWaitInGoThatTakesLong(t *testing.T) {
	l := newLoop(t, loop.Options{})
	const rounds = 40
	left := rounds
	var round func()
	round = func() {
		if left--; left == 0 {
			l.Stop()
			return
		}
		l.Internal().ExpectPost()
		time.AfterFunc(5*time.Millisecond, func() { l.Post(round) })
	}
	l.CallSoon(round)
	if err := l.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if n := l.Internal().GoWaits(); n > rounds/2 {
		t.Errorf("%d of %d waits", n, rounds)
	}
}
