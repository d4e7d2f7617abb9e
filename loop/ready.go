package loop

import "github.com/spindleloop/spindle/internal/atclose"

// Priority selects the lane in which a ready callback waits. The zero value is Normal.
type Priority uint8

// Priorities. Each turn leaves Normal and Low a share if they have work, so that
// callbacks of High slow the others but never stop them.
const (
	Normal Priority = iota // the lane of CallSoon and Post
	High                   // runs before the others in a turn
	Low                    // runs after the others in a turn
)

// Handle identifies a callback of CallSoon. The zero Handle identifies none.
type Handle struct {
	l    *Loop
	lane Priority
	seq  uint64
}

// CallSoon runs fn on the loop in a coming turn: never inside this call.
func (l *Loop) CallSoon(fn func()) Handle { return Handle{l, Normal, l.pushNormal(fn)} }

// pushNormal is one function, with its checks, so that CallSoon can be inlined: the compiler
// inlines neither push nor a function that calls it.
func (l *Loop) pushNormal(fn func()) (seq uint64) {
	l.only("CallSoon")
	if fn == nil {
		panic("loop: CallSoon with a nil callback")
	}
	q := &l.lanes[Normal]
	if q.full() {
		q.grow()
	}
	return q.append(fn)
}

// CallSoonPriority is CallSoon into the lane of p.
func (l *Loop) CallSoonPriority(p Priority, fn func()) Handle {
	l.only("CallSoonPriority")
	if fn == nil {
		panic("loop: CallSoonPriority with a nil callback")
	}
	if p > Low {
		panic("loop: CallSoonPriority with an unknown priority")
	}
	return Handle{l, p, l.lanes[p].push(fn)}
}

// Cancel removes the callback. It reports whether the callback was still pending.
func (h Handle) Cancel() bool {
	if h.l == nil || h.l.isClosed() {
		return false
	}
	h.l.only("Handle.Cancel")
	return h.l.lanes[h.lane].cancel(h.seq)
}

// Post runs fn on the loop, in the Normal lane. It is the entry for other goroutines. Any
// goroutine may call it, also before Run and from callbacks. After Close it returns
// ErrClosed, and fn does not run.
func (l *Loop) Post(fn func()) error {
	if fn == nil {
		panic("loop: Post with a nil callback")
	}
	return l.postEntry(fn, nil)
}

// PostDroppable is Post for a callback that nothing needs any more once the loop is closed,
// such as a message for the loop's connections: Close drops it and does not report it as
// lost.
func (l *Loop) PostDroppable(fn func()) error {
	return l.Internal().Post(atclose.Drop, fn)
}
