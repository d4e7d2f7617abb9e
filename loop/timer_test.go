package loop_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

func TestTimersAreNeverEarly(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		delays := []time.Duration{0, 1, 999, 50 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, 7 * time.Millisecond}
		left := 20 * len(delays)
		for range 20 {
			for _, d := range delays {
				due := l.Time() + d
				l.CallLater(d, func() {
					if now := l.Time(); now < due {
						t.Errorf("CallLater(%v) fired %v early", d, due-now)
					}
					if left--; left == 0 {
						l.Stop()
					}
				})
			}
		}
		run(t, l)
	})
}

// TestTimersInExactOrder sets random deadlines of every scale, many of them equal, and
// compares the order with a stable sort, to the nanosecond.
func TestTimersInExactOrder(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	r := rand.New(rand.NewPCG(7, 7))
	type timer struct {
		when time.Duration
		seq  int
	}
	var want, got []timer
	const n = 50_000
	for i := range n {
		tm := timer{time.Duration(r.Int64N(1 << (8 + r.IntN(40)))), i}
		if r.IntN(3) == 0 && i > 0 {
			tm.when = want[r.IntN(i)].when
		}
		want = append(want, tm)
		l.CallAt(tm.when, func() {
			if v.now < tm.when {
				t.Errorf("fired %v early", tm.when-v.now)
			}
			if got = append(got, tm); len(got) == n {
				l.Stop()
			}
		})
	}
	run(t, l)
	slices.SortStableFunc(want, func(a, b timer) int { return cmp.Compare(a.when, b.when) })
	if !slices.Equal(got, want) {
		t.Fatal("not in the order of their deadlines")
	}
}

func TestTimerCancelledWithinItsBatch(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	var second loop.Timer
	l.CallAt(time.Second, func() {
		if !second.Cancel() {
			t.Error("a due timer could not be cancelled")
		}
	})
	second = l.CallAt(time.Second, func() { t.Error("cancelled timer ran") })
	l.CallAt(2*time.Second, l.Stop)
	run(t, l)
}

func TestStaleTimerDoesNothing(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	fired := l.CallLater(0, func() {})
	var self loop.Timer
	self = l.CallLater(time.Second, func() {
		if self.Cancel() {
			t.Error("a timer cancelled itself while it ran")
		}
		l.Stop()
	})
	run(t, l)
	ran := 0
	for range 100 { // reuses their places
		l.CallLater(time.Second, func() {
			if ran++; ran == 100 {
				l.Stop()
			}
		})
	}
	if fired.Cancel() || self.Cancel() {
		t.Error("a stale timer cancelled something")
	}
	run(t, l)
}

func TestTimerRearmsInItsOwnCallback(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	n := 0
	begin := l.Time()
	var tick func()
	tick = func() {
		if n++; n == 1000 {
			l.Stop()
			return
		}
		l.CallLater(time.Second, tick)
	}
	l.CallLater(time.Second, tick)
	run(t, l)
	if v.now-begin != 1000*time.Second {
		t.Fatalf("a thousand seconds took %v", v.now-begin)
	}
}

// TestZeroDelayIntervalRunsOncePerTurn uses a clock that stands still, which is the hard
// case: the new timer is due at once.
func TestZeroDelayIntervalRunsOncePerTurn(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	runs := 0
	var again func()
	again = func() { runs++; l.CallLater(0, again) }
	l.CallLater(0, again)
	for turn := 1; turn <= 5; turn++ {
		before := runs
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
		if runs > before+1 {
			t.Fatalf("ran %d times in one turn", runs-before)
		}
	}
	if runs < 4 {
		t.Fatalf("ran %d times in 5 turns", runs)
	}
}

// TestPastDeadlinesDoNotStarveOthers: many timers set themselves a time in the past again
// and again.
func TestPastDeadlinesDoNotStarveOthers(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	for range 500 {
		var again func()
		again = func() { l.CallAt(-time.Hour, again) }
		l.CallAt(-time.Hour, again)
	}
	soon := 0
	l.CallLater(0, func() {
		l.CallSoon(func() { soon++ })
		l.CallLater(0, l.Stop)
	})
	run(t, l)
	if soon != 1 {
		t.Fatal("a ready callback did not run")
	}
}

func TestDurationsAtTheEdges(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	l.CallLater(math.MaxInt64, func() { t.Error("a timer at the end of time ran") })
	l.CallLater(math.MaxInt64-1, func() { t.Error("a timer at the end of time ran") })
	l.CallAt(math.MaxInt64, func() { t.Error("a timer at the end of time ran") })
	order := ""
	l.CallLater(math.MinInt64, func() { order += "a" })
	l.CallAt(math.MinInt64, func() { order += "b" })
	l.CallLater(-1, func() { order += "c" })
	l.CallLater(100*365*24*time.Hour, func() { order += "d"; l.Stop() })
	run(t, l)
	if order != "abcd" {
		t.Fatalf("order %q", order)
	}
}

func TestLagIsMeasured(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	l.CallLater(time.Second, func() { v.now += time.Minute }) // a callback that takes long
	l.CallLater(2*time.Second, l.Stop)
	run(t, l)
	if s := l.Stats(); s.Lag != 59*time.Second || s.MaxLag != s.Lag {
		t.Fatalf("lag %v, most %v; want 59s", s.Lag, s.MaxLag)
	}
}

// TestTooLongDelayNeverEnds: even if the clock does not begin at zero.
func TestTooLongDelayNeverEnds(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	v.now = time.Hour
	l.CallLater(math.MaxInt64, func() { t.Error("a timer at the end of time ran") })
	l.CallLater(math.MaxInt64-time.Minute, func() { t.Error("a timer at the end of time ran") })
	l.CallLater(time.Hour, l.Stop)
	run(t, l)
	if v.now != 2*time.Hour {
		t.Errorf("stopped at %v", v.now)
	}
}

// TestLagIsOfTheFirstAndMaxLagStays: two timers of a batch are late, and a later one is
// in time.
func TestLagIsOfTheFirstAndMaxLagStays(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	l.CallLater(time.Second, func() { v.now += time.Minute })
	l.CallLater(2*time.Second, func() {})
	l.CallLater(3*time.Second, l.Stop)
	run(t, l)
	if s := l.Stats(); s.Lag != 59*time.Second {
		t.Errorf("lag %v, want 59s", s.Lag)
	}
	l.CallLater(time.Second, l.Stop)
	run(t, l)
	if s := l.Stats(); s.Lag != 0 || s.MaxLag != 59*time.Second {
		t.Errorf("lag %v, most %v; want 0s, 59s", s.Lag, s.MaxLag)
	}
}

// TestTimerSetAfterAPanicIsDueAtOnce: a panic in a timer ends its phase, so that a timer
// that is set then runs in the next phase.
func TestTimerSetAfterAPanicIsDueAtOnce(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	l.CallLater(0, explode)
	for l.Stats().Panics == 0 {
		once(t, l)
	}
	ran := false
	l.CallLater(0, func() { ran = true })
	if once(t, l); !ran {
		t.Fatal("a timer that was due did not run")
	}
}
