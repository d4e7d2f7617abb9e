package loop_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// kindsOfCallback schedules a callback of each kind.
var kindsOfCallback = map[string]func(t *testing.T, l *loop.Loop, fn func()){
	"ready": func(t *testing.T, l *loop.Loop, fn func()) { l.CallSoon(fn) },
	"low":   func(t *testing.T, l *loop.Loop, fn func()) { l.CallSoonPriority(loop.Low, fn) },
	"post":  func(t *testing.T, l *loop.Loop, fn func()) { l.Post(fn) },
	"timer": func(t *testing.T, l *loop.Loop, fn func()) { l.CallLater(0, fn) },
	"reader": func(t *testing.T, l *loop.Loop, fn func()) {
		fds := socketpair(t)
		write(fds[1], "x")
		if err := l.AddReader(fds[0], func() { l.RemoveReader(fds[0]); fn() }); err != nil {
			t.Fatal(err)
		}
	},
	"watch": func(t *testing.T, l *loop.Loop, fn func()) {
		fds := socketpair(t)
		if _, err := l.Watch(fds[0], loop.Writable, loop.OneShot, func(loop.Ready) { fn() }); err != nil {
			t.Fatal(err)
		}
	},
	"done": func(t *testing.T, l *loop.Loop, fn func()) {
		loop.Offload(l, func() (int, error) { return 0, nil }, func(int, error) { fn() })
	},
}

func explode() { panic("boom") }
func vanish()  { runtime.Goexit() }

func checkCaught(t *testing.T, err error, want any, frame string) {
	t.Helper()
	var p *loop.PanicError
	switch {
	case !errors.As(err, &p):
		t.Errorf("error %v is not a panic", err)
	case p.Value != want:
		t.Errorf("panic with %v, want %v", p.Value, want)
	case !bytes.Contains(p.Stack, []byte(frame)):
		t.Errorf("stack does not show %s:\n%s", frame, p.Stack)
	}
}

func TestPanicEndsRun(t *testing.T) {
	for name, schedule := range kindsOfCallback {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, loop.Options{})
			schedule(t, l, explode)
			checkCaught(t, l.Run(context.Background()), "boom", "explode")
			// The loop can run again.
			l.CallSoon(l.Stop)
			run(t, l)
		})
	}
}

func TestGoexitEndsRun(t *testing.T) {
	for name, schedule := range kindsOfCallback {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, loop.Options{})
			schedule(t, l, vanish)
			err := l.Run(context.Background())
			checkCaught(t, err, loop.ErrGoexit, "vanish")
			if !errors.Is(err, loop.ErrGoexit) {
				t.Errorf("%v is not ErrGoexit", err)
			}
			l.CallSoon(l.Stop)
			run(t, l)
		})
	}
}

func TestHandlerLetsTheLoopContinue(t *testing.T) {
	for name, schedule := range kindsOfCallback {
		t.Run(name, func(t *testing.T) {
			var caught []any
			l := newLoop(t, loop.Options{OnPanic: func(p *loop.PanicError) error {
				caught = append(caught, p.Value)
				return nil
			}})
			ran := 0
			after := func() {
				if ran++; ran == 2 {
					l.Stop()
				}
			}
			schedule(t, l, explode)
			schedule(t, l, after) // after it in the same batch
			schedule(t, l, vanish)
			schedule(t, l, after)
			run(t, l)
			for len(caught) < 2 { // offloads come in any order
				l.RunOnce(-1)
			}
			if len(caught) != 2 || ran != 2 {
				t.Fatalf("caught %v, ran %d", caught, ran)
			}
			if s := l.Stats(); s.Panics != 2 {
				t.Errorf("stats count %d panics", s.Panics)
			}
		})
	}
}

func TestHandlerEndsTheLoop(t *testing.T) {
	verdict := errors.New("that is too much")
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return verdict }})
	ran := false
	l.CallSoon(explode)
	l.CallSoon(func() { ran = true; l.Stop() })
	if err := l.Run(context.Background()); err != verdict {
		t.Fatalf("Run: %v", err)
	}
	if ran {
		t.Fatal("a callback ran after OnPanic returned an error")
	}
	run(t, l)
	if !ran {
		t.Fatal("the callback after the panic was lost")
	}
}

func TestHandlerThatPanics(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { panic("me too") }})
	l.CallSoon(explode)
	err := l.Run(context.Background())
	checkCaught(t, err, "boom", "explode")
	if !bytes.Contains([]byte(err.Error()), []byte("me too")) {
		t.Errorf("error %v hides the handler's panic", err)
	}
}

// TestWriterRunsAfterReaderPanicked: both directions are ready in one event.
func TestWriterRunsAfterReaderPanicked(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	fds := socketpair(t)
	write(fds[1], "x")
	order := ""
	if err := l.AddReader(fds[0], func() { order += "r"; l.RemoveReader(fds[0]); panic("reader") }); err != nil {
		t.Fatal(err)
	}
	if err := l.AddWriter(fds[0], func() { order += "w"; l.RemoveWriter(fds[0]); l.Stop() }); err != nil {
		t.Fatal(err)
	}
	run(t, l)
	if order != "rw" {
		t.Fatalf("order %q", order)
	}
}

// TestPanicErrorHasItsPlace: most programs print only the text of the error.
func TestPanicErrorHasItsPlace(t *testing.T) {
	for name, fn := range map[string]func(){
		"panic": explode,
		"index": func() { var none []int; none[len(none)]++ },
		"nil":   func() { var p *loop.PanicError; p.Value = 1 },
		"exit":  vanish,
	} {
		l := newLoop(t, loop.Options{})
		l.CallSoon(fn)
		if err := l.Run(context.Background()); err == nil || !strings.Contains(err.Error(), " at panic_test.go:") {
			t.Errorf("%s: text %q", name, err)
		}
	}
}

func TestRunOnceReturnsThePanic(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(explode)
	_, err := l.RunOnce(0)
	checkCaught(t, err, "boom", "explode")
	if _, err := l.RunOnce(0); err != nil {
		t.Fatalf("the panic came twice: %v", err)
	}
}

// TestRunOnceDoesNotWaitAfterAPanic: there is nothing else to wait for, so another turn
// would wait for ever.
func TestRunOnceDoesNotWaitAfterAPanic(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	l.CallSoon(explode)
	if n, err := l.RunOnce(-1); n != 1 || err != nil {
		t.Fatalf("%d callbacks, %v", n, err)
	}
}

func TestGoexitUnderRunOnceEndsItsGoroutine(t *testing.T) {
	received := make(chan any, 1)
	l := newLoop(t, loop.Options{OnPanic: func(p *loop.PanicError) error { received <- p.Value; return nil }})
	l.CallSoon(vanish)
	came := make(chan bool, 1)
	go func() {
		defer func() { came <- false }()
		l.RunOnce(0)
		came <- true
	}()
	if <-came {
		t.Error("RunOnce returned from a Goexit")
	}
	if v := <-received; v != loop.ErrGoexit {
		t.Errorf("the handler received %v", v)
	}
	l.CallSoon(l.Stop)
	run(t, l) // the loop can be used again
}

// TestPanicsDoNotStarveOthers: a callback panics again and again, and OnPanic accepts it.
func TestPanicsDoNotStarveOthers(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	var again func()
	again = func() { l.CallSoon(again); panic("again") }
	l.CallSoon(again)
	left := 3
	done := func() {
		if left--; left == 0 {
			l.Stop()
		}
	}
	l.CallLater(time.Millisecond, done)
	l.CallSoonPriority(loop.Low, done)
	fds := socketpair(t)
	write(fds[1], "x")
	if err := l.AddReader(fds[0], func() { l.RemoveReader(fds[0]); done() }); err != nil {
		t.Fatal(err)
	}
	run(t, l)
}

// TestPanicsKeepTheShares: a callback in the Low lane waits no longer behind a thousand
// High callbacks that panic than behind a thousand that do not.
func TestPanicsKeepTheShares(t *testing.T) {
	panics := 0
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { panics++; return nil }})
	for range 1000 {
		l.CallSoonPriority(loop.High, explode)
	}
	before := 0
	l.CallSoonPriority(loop.Low, func() { before = panics })
	for l.Stats().Ready > 0 {
		l.RunOnce(0)
	}
	if before > 61 {
		t.Fatalf("the Low callback ran after %d panics in the High lane", before)
	}
}

func TestCallbackMayLockItsThread(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(func() { runtime.LockOSThread(); l.Stop() })
	run(t, l)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l.CallSoon(vanish)
	if err := l.Run(context.Background()); !errors.Is(err, loop.ErrGoexit) {
		t.Fatal(err)
	}
}

// TestHandlerThatExits: if the handler of a panic calls Goexit, the panic ends the loop.
func TestHandlerThatExits(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { vanish(); return nil }})
	l.CallSoon(explode)
	l.CallSoon(l.Stop)
	checkCaught(t, l.Run(context.Background()), "boom", "explode")
	run(t, l)
}
