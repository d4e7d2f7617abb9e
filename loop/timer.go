package loop

import (
	"math"
	"time"

	"github.com/spindleloop/spindle/loop/internal/wheel"
)

// Timer identifies a callback of CallLater or CallAt. The zero Timer identifies none.
type Timer struct {
	l   *Loop
	ref wheel.Ref
}

// CallLater runs fn on the loop once d has passed, and never before. A negative d counts
// as zero. With a d too long for the clock, fn never runs.
func (l *Loop) CallLater(d time.Duration, fn func()) Timer {
	l.only("CallLater")
	if fn == nil {
		panic("loop: CallLater with a nil callback")
	}
	// The clock is read here: counted from the beginning of the turn, the timer
	// would be early.
	now := l.k.Mono()
	when := now + max(d, 0)
	if when < now {
		when = math.MaxInt64
	}
	return Timer{l, l.wheel.Add(int64(when), fn)}
}

// CallAt runs fn on the loop once Time has reached when. A time in the past counts as now:
// timers that were due before run first.
func (l *Loop) CallAt(when time.Duration, fn func()) Timer {
	l.only("CallAt")
	if fn == nil {
		panic("loop: CallAt with a nil callback")
	}
	// Without this, a callback that always sets itself a time in the past would run
	// before all other timers for ever.
	when = max(when, l.k.Mono())
	return Timer{l, l.wheel.Add(int64(when), fn)}
}

// Cancel removes the timer. It reports whether the timer was still pending.
func (t Timer) Cancel() bool {
	if t.l == nil || t.l.isClosed() {
		return false
	}
	t.l.only("Timer.Cancel")
	return t.l.wheel.Cancel(t.ref)
}

// fireTimers runs the timers that are due at the turn's time.
func (l *Loop) fireTimers() {
	now := l.now
	l.wheel.Begin(int64(now))
	fired := 0
	for fired < phaseSize {
		fn, when := l.wheel.Due()
		if fn == nil {
			l.timersDue = false
			break
		}
		if fired == 0 {
			l.observeLag(now - time.Duration(when))
		}
		fired++
		l.sincePoll++
		l.stats.TimersFired++
		fn()
	}
	l.wheel.End()
}

// readClock reads the time of this turn and checks whether timers are due.
func (l *Loop) readClock() {
	l.now = l.k.Mono()
	if next, ok := l.wheel.Next(); ok && next <= int64(l.now) {
		l.timersDue = true
	}
}
