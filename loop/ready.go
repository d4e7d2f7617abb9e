package loop

import (
	"github.com/spindleloop/spindle/internal/loopcore"
)

// Priority selects the lane in which a ready callback waits. The zero value is Normal.
type Priority = loopcore.Priority

// Priorities. Each turn leaves Normal and Low a share if they have work, so that
// callbacks of High slow the others but never stop them.
const (
	Normal = loopcore.Normal // the lane of CallSoon and Post
	High   = loopcore.High   // runs before the others in a turn
	Low    = loopcore.Low    // runs after the others in a turn
)

// Handle identifies a callback of CallSoon. The zero Handle identifies none.
type Handle struct {
	c    *loopcore.Loop
	lane Priority
	seq  uint64
}

// CallSoon runs fn on the loop in a coming turn: never inside this call.
func (l *Loop) CallSoon(fn func()) Handle {
	return Handle{&l.core, Normal, l.core.PushNormal(fn)}
}

// CallSoonPriority is CallSoon into the lane of p.
func (l *Loop) CallSoonPriority(p Priority, fn func()) Handle {
	l.core.Only("CallSoonPriority")
	if fn == nil {
		panic("loop: CallSoonPriority with a nil callback")
	}
	if p > Low {
		panic("loop: CallSoonPriority with an unknown priority")
	}
	return Handle{&l.core, p, l.core.Push(p, fn)}
}

// Cancel removes the callback. It reports whether the callback was still pending.
func (h Handle) Cancel() bool {
	if h.c == nil || h.c.Closed() {
		return false
	}
	h.c.Only("Handle.Cancel")
	return h.c.Cancel(h.lane, h.seq)
}

// Post runs fn on the loop, in the Normal lane. It is the entry for other goroutines. Any
// goroutine may call it, also before Run and from callbacks. After Close it returns
// ErrClosed, and fn does not run.
func (l *Loop) Post(fn func()) error {
	if fn == nil {
		panic("loop: Post with a nil callback")
	}
	return l.core.PostEntry(fn, nil)
}

// PostDroppable is Post for a callback that nothing needs any more once the loop is closed,
// such as a message for the loop's connections: Close drops it and does not report it as
// lost.
func (l *Loop) PostDroppable(fn func()) error {
	return l.core.Post(loopcore.DropAtClose, fn)
}
