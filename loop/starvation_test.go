package loop

import (
	"testing"
	"time"
)

func TestStarves(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name       string
		wall, cpu  time.Duration
		contenders int
		want       bool
	}{
		{"computes alone", 100 * ms, 99 * ms, 1, false},
		{"computes beside another on a second CPU", 100 * ms, 198 * ms, 2, false},
		{"one of nine on one CPU", 100 * ms, 100 * ms, 9, true},
		{"other processes have the CPU", 100 * ms, 10 * ms, 1, true},
		{"other processes have most of two CPUs", 100 * ms, 60 * ms, 2, true},
		{"nothing is known of the others", 100 * ms, 99 * ms, 0, false},
	} {
		if got := starves(tc.wall, tc.cpu, tc.contenders); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestWatchdogRests: taking a stack among very many goroutines takes long and stops the
// loop. The watchdog takes only a few stacks of a turn that starves for a minute, and rests
// after an expensive one.
func TestWatchdogRests(t *testing.T) {
	s, stacks := sample{judgeAt: 2}, 0
	for range 1200 {
		if s.due() {
			stacks++
			s.judgeAt = 2 * s.ticks
		}
	}
	if stacks > 11 {
		t.Errorf("%d stacks of one turn", stacks)
	}
	const period = 50 * time.Millisecond
	if got := restAfter(time.Second, period); got != 380 {
		t.Errorf("a rest of %d ticks after a stack that took 20 ticks; want 380", got)
	}
	if got := restAfter(time.Millisecond, period); got != 0 {
		t.Errorf("a rest of %d ticks after a cheap stack", got)
	}
}

// TestWatchdogOfAClosedLoop: it may look when the loop is closed, or is between two owners.
// Then no goroutine runs it.
func TestWatchdogOfAClosedLoop(t *testing.T) {
	reports := 0
	l, err := New(Options{OnBlocked: func(Blocked) { reports++ }})
	if err != nil {
		t.Fatal(err)
	}
	s := newSample(l)
	s.judge(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.judge(l)
	if reports > 0 {
		t.Errorf("%d reports of a loop that does not run", reports)
	}
}
