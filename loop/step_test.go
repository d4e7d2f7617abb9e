package loop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// poll polls until something is pending, and returns it.
func poll(t *testing.T, l *loop.Loop) []loop.Pending {
	t.Helper()
	n, err := l.Poll(-1)
	if err != nil {
		t.Fatal(err)
	}
	p := l.Pending()
	if len(p) != n {
		t.Fatalf("Poll returned %d, Pending %d entries", n, len(p))
	}
	return p
}

func TestPollRunsNothing(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		write(fds[1], "x")
		order := ""
		l.CallSoon(func() { order += "s" })
		l.Post(func() { order += "p" })
		l.CallLater(0, func() { order += "t" })
		if err := l.AddReader(fds[0], func() { order += "r"; read(fds[0]) }); err != nil {
			t.Fatal(err)
		}
		pending := poll(t, l)
		if order != "" {
			t.Fatalf("Poll ran %q", order)
		}
		var descriptors []int
		for _, p := range pending {
			descriptors = append(descriptors, p.FD)
			if p.FD >= 0 && p.Ready&loop.Readable == 0 {
				t.Errorf("pending %+v", p)
			}
			if err := p.Run(); err != nil {
				t.Fatal(err)
			}
		}
		if want := []int{-1, -1, fds[0]}; order != "tspr" || !slices.Equal(descriptors, want) {
			t.Fatalf("ran %q for descriptors %v, want %v", order, descriptors, want)
		}
		if n, err := l.Poll(0); n != 0 || err != nil {
			t.Fatalf("%d pending after all ran, %v", n, err)
		}
	})
}

// TestPollMergesDuplicates polls many times without a call of Pending.
func TestPollMergesDuplicates(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	calls := 0
	if _, err := l.Watch(fds[0], loop.Readable|loop.Writable, loop.Level, func(r loop.Ready) { calls++ }); err != nil {
		t.Fatal(err)
	}
	l.CallSoon(func() { calls++ })
	l.CallLater(0, func() { calls++ })
	for i := range 10 {
		n, err := l.Poll(0)
		if n != 3 || err != nil {
			t.Fatalf("poll %d: %d pending, %v", i, n, err)
		}
		if i == 5 {
			write(fds[1], "x") // is merged with the writability found before
		}
	}
	for _, p := range l.Pending() {
		if p.FD >= 0 && p.Ready&(loop.Readable|loop.Writable) != loop.Readable|loop.Writable {
			t.Errorf("ready %b", p.Ready)
		}
		p.Run()
	}
	if calls != 3 {
		t.Fatalf("%d calls", calls)
	}
}

func TestPendingRespectsCancel(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	no := func() { t.Error("cancelled callback ran") }
	soon, timer := l.CallSoon(no), l.CallLater(0, no)
	watch, err := l.Watch(fds[0], loop.Writable, loop.Level, func(loop.Ready) { no() })
	if err != nil {
		t.Fatal(err)
	}
	pending := poll(t, l)
	soon.Cancel()
	timer.Cancel()
	watch.Cancel()
	for _, p := range pending {
		if err := p.Run(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRunTakesWhatPollFound(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	calls := 0
	if _, err := l.Watch(fds[0], loop.Writable, loop.OneShot, func(loop.Ready) { calls++; l.Stop() }); err != nil {
		t.Fatal(err)
	}
	if n, _ := l.Poll(0); n != 1 {
		t.Fatal("nothing pending")
	}
	run(t, l)
	if calls != 1 {
		t.Fatalf("%d calls", calls)
	}
}

func TestPendingReturnsAPanic(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(explode)
	for _, p := range poll(t, l) {
		checkCaught(t, p.Run(), "boom", "explode")
	}
}

func TestDebugPoisonsLentPending(t *testing.T) {
	l := newLoop(t, loop.Options{Debug: true})
	l.CallSoon(func() {})
	pending := poll(t, l)
	l.Poll(0)
	wantPanic(t, "valid until", func() { pending[0].Run() })
}

// TestSteppingIgnoresStop: Stop ends Run. A host that steps the loop must neither spin
// because of it nor lose it.
func TestSteppingIgnoresStop(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	l.Stop()
	l.CallLater(time.Hour, func() {})
	if n, err := l.RunOnce(time.Minute); n != 0 || err != nil || v.now != time.Minute {
		t.Errorf("RunOnce: %d callbacks, %v, waited %v", n, err, v.now)
	}
	if n, err := l.Poll(time.Minute); n != 0 || err != nil || v.now != 2*time.Minute {
		t.Errorf("Poll: %d pending, %v, waited %v", n, err, v.now)
	}
	run(t, l) // ends because of the Stop
}

// TestRunOnceRunsWhatEndedItsWait: a timer, and a posted callback.
func TestRunOnceRunsWhatEndedItsWait(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ran := 0
	l.CallLater(time.Millisecond, func() { ran++ })
	if n, err := l.RunOnce(-1); n != 1 || err != nil || ran != 1 {
		t.Errorf("timer: %d callbacks, %v, ran %d", n, err, ran)
	}
	l.CallSoon(func() { go l.Post(func() { ran++ }) })
	for ran < 2 { // the first turn runs the CallSoon
		if n, err := l.RunOnce(-1); n == 0 || err != nil {
			t.Fatalf("post: %d callbacks, %v", n, err)
		}
	}
}

func TestPollWaitsForATimer(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	l.CallLater(time.Hour, func() {})
	if n, err := l.Poll(time.Minute); n != 0 || err != nil || v.now != time.Minute {
		t.Fatalf("%d pending at %v, %v", n, v.now, err)
	}
	if n, err := l.Poll(-1); n != 1 || err != nil || v.now != time.Hour {
		t.Fatalf("%d pending at %v, %v", n, v.now, err)
	}
}

// TestPollFindsWorkAfterAPanic: the entry that panicked was the last.
func TestPollFindsWorkAfterAPanic(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	l.CallSoon(explode)
	l.Poll(0)
	l.RunOnce(0)
	l.CallSoon(func() {})
	if n, err := l.Poll(0); n != 1 || err != nil {
		t.Fatalf("%d pending, %v", n, err)
	}
}

// TestPendingLeavesOtherEventsAlone: events that a panic has left undelivered
// survive the run of an entry that was lent before.
func TestPendingLeavesOtherEventsAlone(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	calls := 0
	watch := func(fn func(loop.Ready)) {
		fds := socketpair(t)
		if _, err := l.Watch(fds[0], loop.Writable, loop.OneShot, fn); err != nil {
			t.Fatal(err)
		}
	}
	watch(func(loop.Ready) { calls++ })
	lent := poll(t, l)
	for range 3 {
		watch(func(loop.Ready) { calls++; panic("each of them") })
	}
	l.RunOnce(0) // ends at the first panic
	lent[0].Run()
	for range 3 {
		l.RunOnce(0)
	}
	if calls != 4 {
		t.Fatalf("%d of 4 were called", calls)
	}
}

func TestPendingTwiceIsStillLent(t *testing.T) {
	l := newLoop(t, loop.Options{Debug: true})
	l.CallSoon(func() {})
	first := poll(t, l)
	if again := l.Pending(); len(again) != 0 {
		t.Errorf("%d entries were handed over twice", len(again))
	}
	if err := first[0].Run(); err != nil {
		t.Error(err)
	}
}

func TestCancelledCallbacksDoNotCount(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(func() {}).Cancel()
	if s := l.Stats(); s.Ready != 0 {
		t.Errorf("%d ready", s.Ready)
	}
	if n, err := l.RunOnce(0); n != 0 || err != nil {
		t.Errorf("%d ran, %v", n, err)
	}
	if s := l.Stats(); s.Callbacks != 0 {
		t.Errorf("%d callbacks", s.Callbacks)
	}
}

// pollNow polls without waiting and wants n entries.
func pollNow(t *testing.T, l *loop.Loop, want int) {
	t.Helper()
	if n, err := l.Poll(0); n != want || err != nil {
		t.Fatalf("%d pending, %v; want %d", n, err, want)
	}
}

// TestPollFindsALevelAgain: whether its entry was returned, run, or left to RunOnce.
func TestPollFindsALevelAgain(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	calls := 0
	if err := l.AddWriter(fds[0], func() { calls++ }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pollNow(t, l, 1)
		if n := len(l.Pending()); n != 1 { // returned, not run
			t.Fatalf("%d pending", n)
		}
		pollNow(t, l, 1)
		once(t, l) // runs it, polls, and runs it again
	}
	if calls != 6 {
		t.Errorf("%d calls", calls)
	}
}

// TestPollDoesNotWaitForWhatItHas: virtual time passes only in a wait.
func TestPollDoesNotWaitForWhatItHas(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	fds := socketpair(t)
	if _, err := l.Watch(fds[0], loop.Writable, loop.OneShot, func(loop.Ready) {}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := l.Poll(time.Hour); n != 1 || err != nil || v.now != 0 {
			t.Fatalf("%d pending, %v; waited %v", n, err, v.now)
		}
	}
}

// TestPollFindsWhatAPanicLeft: of two ready descriptors, the first callback panics. The
// second is not lost, and the first does not run again.
func TestPollFindsWhatAPanicLeft(t *testing.T) {
	for name, begin := range map[string]func(*loop.Loop){
		"in a turn":   func(*loop.Loop) {},
		"from a Poll": func(l *loop.Loop) { pollNow(t, l, 2) },
	} {
		for next, proceed := range map[string]func(*loop.Loop){
			"Poll": func(l *loop.Loop) { pollNow(t, l, 1); l.Pending()[0].Run() },
			"Pending": func(l *loop.Loop) {
				for _, p := range l.Pending() {
					p.Run()
				}
			},
			"RunOnce": func(l *loop.Loop) { once(t, l) },
		} {
			if name == "in a turn" && next == "Pending" {
				continue // Pending returns only what a Poll found
			}
			l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
			var calls []int
			for i := range 2 {
				fds := socketpair(t)
				if _, err := l.Watch(fds[0], loop.Writable, loop.OneShot, func(loop.Ready) {
					if calls = append(calls, i); len(calls) == 1 {
						explode()
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			begin(l)
			once(t, l)
			if len(calls) != 1 {
				t.Fatalf("%s: calls %v", name, calls)
			}
			proceed(l)
			if len(calls) != 2 || calls[0] == calls[1] {
				t.Errorf("%s, then %s: calls %v", name, next, calls)
			}
		}
	}
}

// TestPollMergesAfterAPanic: entries that have run are still before the merged one.
func TestPollMergesAfterAPanic(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	for range 2 {
		if _, err := l.Watch(socketpair(t)[0], loop.Writable, loop.OneShot, func(loop.Ready) { explode() }); err != nil {
			t.Fatal(err)
		}
	}
	pollNow(t, l, 2)
	once(t, l)
	fds := socketpair(t)
	if _, err := l.Watch(fds[0], loop.Readable|loop.Writable, loop.Level, func(loop.Ready) {}); err != nil {
		t.Fatal(err)
	}
	pollNow(t, l, 2)
	write(fds[1], "x")
	pollNow(t, l, 2)
	for _, p := range l.Pending() {
		if readable := p.Ready&loop.Readable != 0; readable != (p.FD == fds[0]) {
			t.Errorf("descriptor %d: ready %b", p.FD, p.Ready)
		}
	}
}
