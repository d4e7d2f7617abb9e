package loop

import (
	"math"
	"time"

	"github.com/spindleloop/spindle/internal/wheel"
)

// Timer names a callback that CallLater or CallAt set. The zero Timer names
// none.
type Timer struct {
	l   *Loop
	ref wheel.Ref
}

// CallLater runs fn on the loop once d has passed, and never before. A
// negative d is zero; one too long for the clock waits for ever.
func (l *Loop) CallLater(d time.Duration, fn func()) Timer {
	l.only("CallLater")
	if fn == nil {
		panic("loop: CallLater with a nil callback")
	}
	// The clock is read here: counted from the time the turn began, the
	// timer would be early.
	now := l.k.Mono()
	when := now + max(d, 0)
	if when < now {
		when = math.MaxInt64
	}
	return Timer{l, l.wheel.Add(int64(when), fn)}
}

// CallAt runs fn on the loop once Time has reached when. A time that has
// passed counts as now: what was due before goes first.
func (l *Loop) CallAt(when time.Duration, fn func()) Timer {
	l.only("CallAt")
	if fn == nil {
		panic("loop: CallAt with a nil callback")
	}
	// Without this a callback that sets itself a past time again and again
	// would stand before everybody for ever.
	when = max(when, l.k.Mono())
	return Timer{l, l.wheel.Add(int64(when), fn)}
}

// Cancel takes the timer back and tells whether it was still to run.
func (t Timer) Cancel() bool {
	if t.l == nil || t.l.owner.Load() == closedOwner {
		return false
	}
	t.l.only("Timer.Cancel")
	return t.l.wheel.Cancel(t.ref)
}

// fireTimers runs the timers that are due by the clock's last reading.
func (l *Loop) fireTimers() {
	l.wheel.Begin(int64(l.now))
	fired := 0
	for fired < askEvery {
		fn, when := l.wheel.Due()
		if fn == nil {
			l.due = false
			break
		}
		if fired == 0 {
			l.stats.observeLag(l.now - time.Duration(when))
		}
		fired++
		l.sinceAsk++
		l.stats.TimersFired++
		fn()
	}
	l.wheel.End()
}

// readClock takes the time for this turn and sees whether it makes timers due.
func (l *Loop) readClock() {
	l.now = l.k.Mono()
	if next, ok := l.wheel.Next(); ok && next <= int64(l.now) {
		l.due = true
	}
}
