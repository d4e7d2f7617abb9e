package loop_test

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

func TestOnTurnGetsEveryPhase(t *testing.T) {
	var seen []loop.Turn
	l, v := newVirtual(t, loop.Options{OnTurn: func(t loop.Turn) { seen = append(seen, t) }})
	spend := func(d time.Duration) func() { return func() { v.now += d } }
	fds := socketpair(t)
	if _, err := l.Watch(fds[0], loop.Writable, loop.OneShot, func(loop.Ready) { spend(4 * time.Second)() }); err != nil {
		t.Fatal(err)
	}
	l.CallLater(0, spend(time.Second))
	l.CallSoon(spend(2 * time.Second))
	l.CallLater(time.Minute, l.Stop)
	run(t, l)
	var sum loop.Turn
	for _, turn := range seen {
		sum.Timers += turn.Timers
		sum.Ready += turn.Ready
		sum.Wait += turn.Wait
		sum.Events += turn.Events
		sum.Callbacks += turn.Callbacks
	}
	want := loop.Turn{Timers: time.Second, Ready: 2 * time.Second, Events: 4 * time.Second, Wait: 53 * time.Second, Callbacks: 4}
	if sum != want {
		t.Fatalf("observed %+v, want %+v", sum, want)
	}
}

func TestStats(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	fds := socketpair(t)
	if err := l.AddWriter(fds[0], func() { l.RemoveWriter(fds[0]) }); err != nil {
		t.Fatal(err)
	}
	l.CallSoon(func() {})
	l.Post(func() {})
	l.CallLater(0, func() {})
	l.CallLater(time.Hour, func() {})
	if s := l.Stats(); s.Ready != 1 || s.Timers != 2 || s.FDs != 1 {
		t.Errorf("before: %+v", s)
	}
	l.CallLater(time.Minute, l.Stop)
	run(t, l)
	s := l.Stats()
	if s.Callbacks != 2 || s.Posted != 1 || s.TimersFired != 2 || s.Events != 1 || s.Timers != 1 || s.FDs != 0 || s.Turns == 0 {
		t.Errorf("after: %+v", s)
	}
}
