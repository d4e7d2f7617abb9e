package loop_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// TestKernelIsAskedUnderAFlood: with 61 callbacks or more in every turn, a
// descriptor that is always ready is heard in every turn.
func TestKernelIsAskedUnderAFlood(t *testing.T) {
	for name, flood := range map[string]func(*loop.Loop, func()){
		"normal": func(l *loop.Loop, fn func()) { l.CallSoon(fn) },
		"high":   func(l *loop.Loop, fn func()) { l.CallSoonPriority(loop.High, fn) },
		"low":    func(l *loop.Loop, fn func()) { l.CallSoonPriority(loop.Low, fn) },
		"timers": func(l *loop.Loop, fn func()) { l.CallLater(0, fn) },
	} {
		l, _ := newVirtual(t, loop.Options{})
		for range 100 {
			var again func()
			again = func() { flood(l, again) }
			again()
		}
		var soon func()
		soon = func() { l.CallSoon(soon) } // so that the loop never runs dry
		soon()
		fds := socketpair(t)
		events, first, last := 0, uint64(0), uint64(0)
		if err := l.AddWriter(fds[0], func() {
			switch events++; events {
			case 1:
				first = l.Stats().Turns
			case 21:
				last = l.Stats().Turns
				l.Stop()
			}
		}); err != nil {
			t.Fatal(err)
		}
		run(t, l)
		if last-first != 20 {
			t.Errorf("%s: 20 events in %d turns", name, last-first)
		}
	}
}

// detachable is a context that knows whether someone still listens to it.
type detachable struct {
	context.Context
	done      chan struct{}
	listeners int
}

func (c *detachable) Done() <-chan struct{} { return c.done }

func (c *detachable) AfterFunc(func()) func() bool {
	c.listeners++
	return func() bool { c.listeners--; return true }
}

// TestRunLeavesItsContext: one that lives on must not hold the loop.
func TestRunLeavesItsContext(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ctx := &detachable{Context: context.Background(), done: make(chan struct{})}
	for range 3 {
		listening := 0
		l.CallSoon(func() { listening = ctx.listeners; l.Stop() })
		if err := l.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if listening != 1 || ctx.listeners != 0 {
			t.Errorf("%d listeners during Run, %d after", listening, ctx.listeners)
		}
	}
}

// TestGroupThatCannotBeMadeLeavesNothing runs out of descriptors half-way.
func TestGroupThatCannotBeMadeLeavesNothing(t *testing.T) {
	lowest := func() int {
		fd, err := syscall.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
		return fd
	}
	before := lowest()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	_, err := loop.NewGroup(100, loop.Options{})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("NewGroup: %v", err)
	}
	if after := lowest(); after != before {
		t.Errorf("the lowest free descriptor was %d and is %d", before, after)
	}
}

// TestGroupCountsEveryLoad makes one loop busy in each way.
func TestGroupCountsEveryLoad(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, burden := range map[string]func(l *loop.Loop){
		"post": func(l *loop.Loop) { l.Post(func() {}) },
		"job": func(l *loop.Loop) {
			loop.Offload(l, func() (int, error) { <-release; return 0, nil }, func(int, error) {})
		},
		"descriptor": func(l *loop.Loop) { l.AddReader(socketpair(t)[0], func() {}) },
	} {
		g := newGroup(t, 2)
		burden(g.Loops()[0])
		for range 4 {
			var got *loop.Loop
			g.Go(func(l *loop.Loop) { got = l })
			if once(t, g.Loops()[1]); got != g.Loops()[1] {
				t.Errorf("%s does not count as load", name)
				break
			}
		}
	}
}

// TestGroupTakesTurnsAmongEquals: none has anything to do whenever Go is called.
func TestGroupTakesTurnsAmongEquals(t *testing.T) {
	g := newGroup(t, 3)
	count := map[*loop.Loop]int{}
	for range 6 {
		g.Go(func(l *loop.Loop) { count[l]++ })
		for _, l := range g.Loops() {
			once(t, l)
		}
	}
	for i, l := range g.Loops() {
		if count[l] != 2 {
			t.Errorf("loop %d ran %d of 6", i, count[l])
		}
	}
}

// pollNow polls without waiting and wants n entries.
func pollNow(t *testing.T, l *loop.Loop, want int) {
	t.Helper()
	if n, err := l.Poll(0); n != want || err != nil {
		t.Fatalf("%d pending, %v; want %d", n, err, want)
	}
}

// TestPollFindsALevelAgain whether what it found was taken, run, or left to Run.
func TestPollFindsALevelAgain(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	calls := 0
	if err := l.AddWriter(fds[0], func() { calls++ }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pollNow(t, l, 1)
		if n := len(l.Pending()); n != 1 { // taken, not run
			t.Fatalf("%d pending", n)
		}
		pollNow(t, l, 1)
		once(t, l) // run by RunOnce, which then asks and runs it again
	}
	if calls != 6 {
		t.Errorf("%d calls", calls)
	}
}

// TestPollDoesNotWaitForWhatItHas: virtual time passes only in a wait.
func TestPollDoesNotWaitForWhatItHas(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	fds := socketpair(t)
	if _, err := l.Watch(fds[0], loop.Write, loop.OneShot, func(loop.Ready) {}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := l.Poll(time.Hour); n != 1 || err != nil || v.now != 0 {
			t.Fatalf("%d pending, %v; waited %v", n, err, v.now)
		}
	}
}

// TestPollFindsWhatAPanicLeft has two descriptors ready; the first callback
// throws. The other is not lost, and the first is not run again.
func TestPollFindsWhatAPanicLeft(t *testing.T) {
	for name, begin := range map[string]func(*loop.Loop){
		"in a turn":   func(*loop.Loop) {},
		"from a Poll": func(l *loop.Loop) { pollNow(t, l, 2) },
	} {
		for next, goOn := range map[string]func(*loop.Loop){
			"Poll": func(l *loop.Loop) { pollNow(t, l, 1); l.Pending()[0].Run() },
			"Pending": func(l *loop.Loop) {
				for _, p := range l.Pending() {
					p.Run()
				}
			},
			"RunOnce": func(l *loop.Loop) { once(t, l) },
		} {
			if name == "in a turn" && next == "Pending" {
				continue // which gives what a Poll found
			}
			l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
			var calls []int
			for i := range 2 {
				fds := socketpair(t)
				if _, err := l.Watch(fds[0], loop.Write, loop.OneShot, func(loop.Ready) {
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
			goOn(l)
			if len(calls) != 2 || calls[0] == calls[1] {
				t.Errorf("%s, then %s: calls %v", name, next, calls)
			}
		}
	}
}

// TestWatchdogReportsATurnOnce goes on blocking after the report, for as long
// as ten more would take.
func TestWatchdogReportsATurnOnce(t *testing.T) {
	const patience = 4 * time.Millisecond
	reports := make(chan loop.Blocked, 100)
	l := newLoop(t, loop.Options{Watchdog: patience, OnBlocked: func(b loop.Blocked) { reports <- b }})
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

// TestPollMergesBehindWhatAPanicLeft: entries that have run stand before it.
func TestPollMergesBehindWhatAPanicLeft(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	for range 2 {
		if _, err := l.Watch(socketpair(t)[0], loop.Write, loop.OneShot, func(loop.Ready) { explode() }); err != nil {
			t.Fatal(err)
		}
	}
	pollNow(t, l, 2)
	once(t, l)
	fds := socketpair(t)
	if _, err := l.Watch(fds[0], loop.Read|loop.Write, loop.Level, func(loop.Ready) {}); err != nil {
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

// TestEndedContextRunsNothing, however often it is tried.
func TestEndedContextRunsNothing(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.CallSoon(func() { t.Error("ran with a context that had ended") })
	for range 100 {
		l.Run(ctx)
	}
}
