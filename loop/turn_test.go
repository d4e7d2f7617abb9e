package loop_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// TestKernelIsPolledUnderAFlood: with 61 callbacks or more in every turn, the callback of a
// descriptor that is always ready runs in every turn, or in every fourth if they take no time.
func TestKernelIsPolledUnderAFlood(t *testing.T) {
	for name, flood := range map[string]func(*loop.Loop, func()){
		"normal": func(l *loop.Loop, fn func()) { l.CallSoon(fn) },
		"high":   func(l *loop.Loop, fn func()) { l.CallSoonPriority(loop.High, fn) },
		"low":    func(l *loop.Loop, fn func()) { l.CallSoonPriority(loop.Low, fn) },
		"timers": func(l *loop.Loop, fn func()) { l.CallLater(0, fn) },
	} {
		if turns := turnsOfEvents(t, flood, 0); turns > 80 {
			t.Errorf("%s: 20 events in %d turns", name, turns)
		}
		if turns := turnsOfEvents(t, flood, 2*time.Microsecond); turns != 20 {
			t.Errorf("%s: 20 events in %d turns of callbacks that take 2 µs", name, turns)
		}
	}
}

// turnsOfEvents returns the number of turns in which a descriptor has 20 events, while flood
// schedules more than a turn runs.
func turnsOfEvents(t *testing.T, flood func(*loop.Loop, func()), each time.Duration) uint64 {
	l, clock := newVirtual(t, loop.Options{})
	for range 100 {
		var again func()
		again = func() {
			clock.now += each
			flood(l, again)
		}
		again()
	}
	var soon func()
	soon = func() { l.CallSoon(soon) } // so that the loop always has work
	soon()
	fds := socketpair(t)
	events, first, last := 0, uint64(0), uint64(0)
	if err := l.AddWriter(fds[0], func() {
		switch events++; events {
		case 11: // the loop has learnt how long the callbacks take
			first = l.Stats().Turns
		case 31:
			last = l.Stats().Turns
			l.Stop()
		}
	}); err != nil {
		t.Fatal(err)
	}
	run(t, l)
	return last - first
}

// TestLongCallbacksDelayNoDescriptor: after the first of them, the kernel is polled after each,
// even if short callbacks came before. Then it is polled less often again.
func TestLongCallbacksDelayNoDescriptor(t *testing.T) {
	l, clock := newVirtual(t, loop.Options{})
	fds := socketpair(t)
	events := 0
	if err := l.AddWriter(fds[0], func() { events++ }); err != nil { // always ready
		t.Fatal(err)
	}
	eventsAfter := func(callbacks int, took ...time.Duration) int { // by turns
		before := events
		var again func()
		again = func() {
			clock.now += took[callbacks%len(took)]
			if callbacks--; callbacks > 0 {
				l.CallSoon(again)
			} else {
				l.Stop()
			}
		}
		l.CallSoon(again)
		run(t, l)
		return events - before
	}
	if n := eventsAfter(100, 3*time.Millisecond); n < 98 {
		t.Errorf("%d events in 100 long callbacks", n)
	}
	if n := eventsAfter(6100, 2*time.Microsecond); n < 99 || n > 110 {
		t.Errorf("%d events in 6100 short callbacks", n)
	}
	if n := eventsAfter(24400, 100*time.Nanosecond); n < 99 || n > 110 {
		t.Errorf("%d events in 24400 very short callbacks", n)
	}
	if n := eventsAfter(1000, 3*time.Millisecond); n < 938 {
		t.Errorf("%d events in 1000 long callbacks after short ones", n)
	}
	if n := eventsAfter(1000, 0, 3*time.Millisecond); n < 500 {
		t.Errorf("%d events in 1000 callbacks, every second of them long", n)
	}
	if n := eventsAfter(1000, 100*time.Microsecond); n < 99 || n > 250 {
		t.Errorf("%d events in 1000 callbacks of 100 µs", n)
	}
}

// TestTurnsAreShort: a turn runs at most 61 timers, and 61 callbacks of the lanes.
func TestTurnsAreShort(t *testing.T) {
	const most, many = 61, 500
	nop := func() {}
	for name, add := range map[string]func(*loop.Loop){
		"timers": func(l *loop.Loop) { l.CallLater(0, nop) },
		"normal": func(l *loop.Loop) { l.CallSoon(nop) },
		"high":   func(l *loop.Loop) { l.CallSoonPriority(loop.High, nop) },
		"low":    func(l *loop.Loop) { l.CallSoonPriority(loop.Low, nop) },
		"lanes": func(l *loop.Loop) {
			for p := range loop.Low + 1 {
				l.CallSoonPriority(p, nop)
			}
		},
	} {
		l, _ := newVirtual(t, loop.Options{})
		for range many {
			add(l)
		}
		left := func() int { s := l.Stats(); return s.Ready + s.Timers }
		for turns := 0; left() > 0; turns++ {
			want := min(most, left())
			if turns == 0 && name == "timers" {
				want = 0 // the clock is read at the end
			}
			if n := once(t, l); n != want {
				t.Errorf("%s: %d callbacks in turn %d, want %d", name, n, turns, want)
				break
			}
		}
	}
}

// TestSharesOfTheLanes counts what a full turn runs of each lane.
func TestSharesOfTheLanes(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var ran [3]int
	for p := range loop.Low + 1 {
		for range 100 {
			l.CallSoonPriority(p, func() { ran[p]++ })
		}
	}
	once(t, l)
	if want := [3]int{loop.Normal: 16, loop.High: 41, loop.Low: 4}; ran != want {
		t.Errorf("a turn ran %v, want %v", ran, want)
	}
}

// TestRunOncePollsTheKernel: although a callback is always ready.
func TestRunOncePollsTheKernel(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	write(fds[1], "x")
	var again func()
	again = func() { l.CallSoon(again) }
	l.CallSoon(again)
	readable := 0
	if err := l.AddReader(fds[0], func() { readable++ }); err != nil {
		t.Fatal(err)
	}
	for turn := 1; turn <= 3; turn++ {
		if once(t, l); readable != turn {
			t.Fatalf("%d events in %d turns", readable, turn)
		}
	}
}

func TestSelfReschedulingDoesNotStarveOthers(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		var again func()
		again = func() { l.CallSoon(again) }
		for range 1000 {
			l.CallSoon(again)
		}
		var timer, readable, posted bool
		check := func() {
			if timer && readable && posted {
				l.Stop()
			}
		}
		l.CallLater(time.Millisecond, func() { timer = true; check() })
		fds := socketpair(t)
		if err := l.AddReader(fds[0], func() { readable = true; l.RemoveReader(fds[0]); check() }); err != nil {
			t.Fatal(err)
		}
		go func() {
			write(fds[1], "x")
			l.Post(func() { posted = true; check() })
		}()
		run(t, l)
	})
}

func TestFloodOfPostsDoesNotStarveOthers(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var stop sync.WaitGroup
	quit := make(chan struct{})
	for range 2 {
		stop.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				l.Post(func() {})
				if n%1000 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	fds := socketpair(t)
	write(fds[1], "x")
	left := 2
	done := func() {
		if left--; left == 0 {
			close(quit)
			l.Stop()
		}
	}
	l.CallLater(time.Millisecond, done)
	if err := l.AddReader(fds[0], func() { l.RemoveReader(fds[0]); done() }); err != nil {
		t.Fatal(err)
	}
	run(t, l)
	stop.Wait()
}
