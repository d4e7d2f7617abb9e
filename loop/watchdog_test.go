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

// blockUntil is a callback that holds everybody hostage.
func blockUntil(released chan struct{}) { <-released }

func TestWatchdogNamesWhatBlocksWhileItBlocks(t *testing.T) {
	released := make(chan struct{})
	reports := make(chan loop.Blocked, 10)
	l := newLoop(t, loop.Options{
		Watchdog:  20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) { reports <- b; released <- struct{}{} },
	})
	for range 2 { // each blocked turn is reported, once
		l.CallSoon(func() { blockUntil(released) })
		l.CallSoon(l.Stop)
		run(t, l)
		b := <-reports
		if b.For < 20*time.Millisecond || !bytes.Contains(b.Stack, []byte("blockUntil")) {
			t.Errorf("report %v", b)
		}
		if s := b.String(); !strings.Contains(s, "Offload") || !strings.Contains(s, "blockUntil") {
			t.Errorf("text %q", s)
		}
	}
	if len(reports) != 0 {
		t.Errorf("%d reports too many", len(reports))
	}
}

// TestWatchdogTellsStarvedFromBlocked: a loop whose goroutine can run, and gets no CPU
// because other goroutines have it, is reported as starved. What it runs does not block.
func TestWatchdogTellsStarvedFromBlocked(t *testing.T) {
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
			runtime.Gosched() // it runs again when each of the others has had its time
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

// TestWatchdogReportsAWaitAmongHogs: a callback that waits blocks the loop, however busy
// the CPUs are.
func TestWatchdogReportsAWaitAmongHogs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	released := make(chan struct{})
	blocked := make(chan loop.Blocked, 1)
	l := newLoop(t, loop.Options{
		Watchdog: 20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) {
			if !b.Starved { // it may have starved on its way to the wait
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
	if b := <-blocked; !bytes.Contains(b.Stack, []byte("blockUntil")) {
		t.Errorf("report %v", b)
	}
}

func TestWatchdogWakesWithTheLoop(t *testing.T) {
	released := make(chan struct{})
	l := newLoop(t, loop.Options{
		Watchdog:  5 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) { released <- struct{}{} },
	})
	// Long enough idle that the watchdog has gone to sleep; it must come back.
	l.CallLater(50*time.Millisecond, func() { blockUntil(released); l.Stop() })
	run(t, l)
}

func TestWatchdogLeavesABusyLoopAlone(t *testing.T) {
	l := newLoop(t, loop.Options{
		Watchdog:  500 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) { t.Errorf("a loop that turns was reported: %v", b) },
	})
	var again func()
	again = func() { l.CallSoon(again) }
	l.CallSoon(again)
	l.CallLater(800*time.Millisecond, l.Stop)
	run(t, l)
}

// TestIdleLoopDoesNothing counts the process's context switches and CPU time
// while a loop with timers far away and a watched descriptor does nothing.
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
	// What is asked of the loop itself: that it does not turn.
	turns := make(chan uint64, 2)
	l.Post(func() { turns <- l.Stats().Turns })
	before := <-turns
	timer := time.NewTimer(500 * time.Millisecond)
	switches, cpu := usage()
	<-timer.C
	moreSwitches, moreCPU := usage()
	l.Post(func() { turns <- l.Stats().Turns })
	if n := <-turns - before; n > 2 { // the end of the turn before, and the Post's
		t.Errorf("an idle loop made %d turns", n)
	}
	// A watchdog that does not sleep would make a thousand; Go's own monitor,
	// which slows down by steps, makes a few dozen.
	if n := moreSwitches - switches; n > 300 {
		t.Errorf("%d context switches in half a second of idling", n)
	}
	if d := moreCPU - cpu; d > 100*time.Millisecond {
		t.Errorf("%v of CPU in half a second of idling", d)
	}
	l.Stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestHandlerMayWaitForTheLoop: one that posts and waits must not keep Run from
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
