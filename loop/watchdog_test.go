package loop_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// blockUntil is a callback that blocks the loop.
func blockUntil(released chan struct{}) { <-released }

// inBlockUntil reports whether b is a report of blockUntil. On a busy machine the loop can
// starve in any other callback or turn, which is reported too.
func inBlockUntil(b loop.Blocked) bool { return bytes.Contains(b.Stack, []byte("blockUntil")) }

func TestWatchdogReportsTheBlockingCallback(t *testing.T) {
	released := make(chan struct{})
	reports := make(chan loop.Blocked, 10)
	l := newLoop(t, loop.Options{
		Watchdog: 20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) {
			if inBlockUntil(b) {
				reports <- b
				released <- struct{}{}
			}
		},
	})
	for range 2 { // each blocked turn is reported, once
		l.CallSoon(func() { blockUntil(released) })
		l.CallSoon(l.Stop)
		run(t, l)
		b := <-reports
		if b.For < 20*time.Millisecond {
			t.Errorf("report %v", b)
		}
		if s := b.String(); !strings.Contains(s, "Offload") && !b.Starved || !strings.Contains(s, "blockUntil") {
			t.Errorf("text %q", s)
		}
	}
	if len(reports) != 0 {
		t.Errorf("%d reports too many", len(reports))
	}
}

// TestWatchdogDistinguishesStarved: if the loop's goroutine can run, and gets no CPU because
// other goroutines use it, the loop is reported as starved.
func TestWatchdogDistinguishesStarved(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	reports := make(chan loop.Blocked, 1000)
	l := newLoop(t, loop.Options{
		Watchdog:  20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) { reports <- b },
	})
	var stop atomic.Bool
	var hogs sync.WaitGroup
	for range 8 {
		hogs.Go(func() {
			for !stop.Load() {
			}
		})
	}
	l.CallSoon(func() {
		for len(reports) == 0 {
			runtime.Gosched() // it runs again after each of the others has run
		}
	})
	l.CallSoon(l.Stop)
	run(t, l)
	stop.Store(true)
	hogs.Wait()
	for range len(reports) {
		if b := <-reports; !b.Starved || !strings.Contains(b.String(), "starved") {
			t.Errorf("a starved loop was reported as blocked: %v", b)
		}
	}
}

// TestWatchdogReportsAWaitOnBusyCPUs: a callback that waits blocks the loop, however busy
// the CPUs are.
func TestWatchdogReportsAWaitOnBusyCPUs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	released := make(chan struct{})
	blocked := make(chan loop.Blocked, 1)
	l := newLoop(t, loop.Options{
		Watchdog: 20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) {
			if !b.Starved && inBlockUntil(b) {
				blocked <- b
				close(released)
			}
		},
	})
	var stop atomic.Bool
	var hogs sync.WaitGroup
	for range 4 {
		hogs.Go(func() {
			for !stop.Load() {
			}
		})
	}
	l.CallSoon(func() { blockUntil(released) })
	l.CallSoon(l.Stop)
	run(t, l)
	stop.Store(true)
	hogs.Wait()
	<-blocked
}

func TestWatchdogWakesWithTheLoop(t *testing.T) {
	released := make(chan struct{})
	l := newLoop(t, loop.Options{
		Watchdog: 5 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) {
			if inBlockUntil(b) {
				released <- struct{}{}
			}
		},
	})
	// The loop is idle long enough for the watchdog to sleep; it must wake up again.
	l.CallLater(50*time.Millisecond, func() { blockUntil(released); l.Stop() })
	run(t, l)
}

func TestWatchdogLeavesABusyLoopAlone(t *testing.T) {
	limit := 500 * time.Millisecond
	if testing.Short() {
		limit = 100 * time.Millisecond
	}
	l := newLoop(t, loop.Options{
		Watchdog: limit,
		OnBlocked: func(b loop.Blocked) {
			if !b.Starved { // on a busy machine it may be
				t.Errorf("a busy loop was reported: %v", b)
			}
		},
	})
	var again func()
	again = func() { l.CallSoon(again) }
	l.CallSoon(again)
	l.CallLater(limit*8/5, l.Stop)
	run(t, l)
}

// TestIdleLoopDoesNothing counts the context switches and the CPU time of the process
// while a loop with distant timers and a watched descriptor is idle.
func TestIdleLoopDoesNothing(t *testing.T) {
	l := newLoop(t, loop.Options{Watchdog: time.Millisecond})
	fds := socketpair(t)
	if err := l.AddReader(fds[0], func() {}); err != nil {
		t.Fatal(err)
	}
	l.CallLater(time.Hour, func() {})
	done := make(chan error)
	go func() { done <- l.Run(context.Background()) }()
	usage := func() (switches int64, cpu time.Duration) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return int64(u.Nvcsw), time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	// The loop itself must not make turns.
	turns := make(chan uint64, 2)
	l.Post(func() { turns <- l.Stats().Turns })
	before := <-turns
	timer := time.NewTimer(500 * time.Millisecond)
	began := time.Now()
	switches, cpu := usage()
	<-timer.C
	moreSwitches, moreCPU := usage()
	idle := time.Since(began) // longer than the timer's time on a busy machine
	l.Post(func() { turns <- l.Stats().Turns })
	if n := <-turns - before; n > 2 { // the end of the last turn, and that of the Post
		t.Errorf("an idle loop made %d turns", n)
	}
	// A watchdog that does not sleep would cause two for each millisecond; Go's own
	// monitor thread, which slows down in steps, causes a few dozen in all.
	if n := moreSwitches - switches; n > 300*idle.Milliseconds()/500 {
		t.Errorf("%d context switches in %v of idling", n, idle)
	}
	if d := moreCPU - cpu; d > idle/5 {
		t.Errorf("%v of CPU in %v of idling", d, idle)
	}
	l.Stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestHandlerMayWaitForTheLoop: a handler that posts and waits must not keep Run from
// returning.
func TestHandlerMayWaitForTheLoop(t *testing.T) {
	reported, answered := make(chan struct{}), make(chan struct{})
	var l *loop.Loop
	var first sync.Once // on a busy machine there may be more
	l = newLoop(t, loop.Options{Watchdog: 5 * time.Millisecond, OnBlocked: func(loop.Blocked) {
		first.Do(func() {
			l.Post(func() { close(answered) })
			close(reported)
			<-answered
		})
	}})
	l.CallSoon(func() { <-reported; l.Stop() })
	run(t, l)
	l.CallSoon(l.Stop)
	run(t, l) // the Post is here
	<-answered
}

// TestWatchdogReportsATurnOnce keeps blocking after the report, for as long as ten more
// reports would take.
func TestWatchdogReportsATurnOnce(t *testing.T) {
	const patience = 4 * time.Millisecond
	reports := make(chan loop.Blocked, 100)
	l := newLoop(t, loop.Options{Watchdog: patience, OnBlocked: func(b loop.Blocked) {
		if !b.Starved { // the turn may have been reported as starved before
			reports <- b
		}
	}})
	l.CallSoon(func() {
		<-reports
		<-time.NewTimer(10 * patience).C
		l.Stop()
	})
	run(t, l)
	if n := len(reports); n != 0 {
		t.Errorf("%d reports too many", n)
	}
}
