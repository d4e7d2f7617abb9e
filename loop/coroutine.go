package loop

import (
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// Coroutine is something that can be resumed: an entry of a lane like a
// callback, but one that the loop's callbacks can recognise, so that a coroutine
// that is about to wait can hand over to the next one without going back to the
// loop. It is for schedulers of coroutines on top of a loop.
type Coroutine interface {
	// Resume runs the coroutine until it waits.
	Resume()
}

// ResumeSoon resumes co on the loop in a coming turn, in the lane of p, in order
// with the callbacks there. Whoever calls it is on the loop; that is not checked.
func (l *Loop) ResumeSoon(p Priority, co Coroutine) { l.lanes[p].pushCoroutine(co) }

// NextCoroutine is the coroutine that the loop would resume next if the running
// callback returned now, with nothing else to do before; nil otherwise. Whoever
// runs it instead of returning calls TakeCoroutine first.
func (l *Loop) NextCoroutine() Coroutine {
	q := l.serving
	if q == nil || q.head == q.tail {
		return nil
	}
	if q.head == q.end { // it would be a turn of its own
		if l.sinceAsk >= askEvery || l.due || l.inbox.waiting.Load() || l.opts.Observer != nil || l.ready() != q.len() {
			return nil
		}
	}
	return q.at(q.head).co
}

// TakeCoroutine takes what NextCoroutine gave out of its lane.
func (l *Loop) TakeCoroutine() {
	q := l.serving
	if q.head == q.end { // a turn of its own
		q.end++
		l.sinceAsk++
		l.stats.Turns++
	}
	q.at(q.head).co = nil
	q.head++
}

// Owner is the goroutine that may use the loop.
func (l *Loop) Owner() uintptr { return l.owner.Load() }

// SetOwner makes the goroutine g the one that may use the loop. A coroutine has an
// identity of its own; whoever resumes it tells the loop.
func (l *Loop) SetOwner(g uintptr) { l.owner.Store(g) }

// Entered returns how the goroutine that runs the loop was locked to its thread when it
// began to. A callback that changes that must change it back before it returns.
func (l *Loop) Entered() goid.ThreadLock { return l.entered }

// OnEntry calls fn once, when a goroutine next begins to run the loop. It replaces the
// function of an earlier call.
func (l *Loop) OnEntry(fn func()) { l.onEntry = fn }

// TurnTime is the clock's last reading: Time as it was when the kernel was last
// asked. It costs nothing, and must not be used to set timers.
func (l *Loop) TurnTime() time.Duration { return l.now }
