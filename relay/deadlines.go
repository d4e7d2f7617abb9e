package relay

import (
	"maps"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// deadlines are those of the calls of one loop, or of all goroutines, that have the time-out of the
// Caller. They come in the order in which the calls began, so one timer is enough for all.
// Guarded by the Caller's mutex.
type deadlines struct {
	c              *Caller
	l              *loop.Loop // nil for goroutines
	tick           func()     // ends calls at their deadlines; called on the loop, or on a goroutine
	oldest, newest *waiter
	ticking        bool          // tick will be called
	next           time.Duration // the deadline that it will be called at, since the Caller's epoch
	timer          alarm         // calls it
}

// deadlinesOf returns the deadlines of calls on a loop; nil stands for goroutines. The caller holds c.mu.
func (c *Caller) deadlinesOf(l *loop.Loop) *deadlines {
	p := c.deadlines[l]
	if p == nil {
		maps.DeleteFunc(c.deadlines, func(l *loop.Loop, _ *deadlines) bool {
			if l == nil {
				return false
			}
			select {
			case <-l.Done():
				return true
			default:
				return false
			}
		})
		p = &deadlines{c: c, l: l}
		p.tick = p.expireOldest
		c.deadlines[l] = p
	}
	return p
}

// limit makes a call end at its deadline. A call that had to wait before it was sent is inserted
// where its deadline belongs. The caller holds c.mu, on the loop.
func (p *deadlines) limit(w *waiter) {
	before := p.newest
	for before != nil && before.req.origin.deadline > w.req.origin.deadline {
		before = before.older
	}
	w.listed, w.older, w.newer = true, before, p.oldest
	if before != nil {
		w.newer, before.newer = before.newer, w
	} else {
		p.oldest = w
	}
	if w.newer != nil {
		w.newer.older = w
	} else {
		p.newest = w
	}
	if !p.ticking || w.req.origin.deadline < p.next {
		p.tickAt(p.c.clock.now())
	}
}

// unlimit takes a call out of the list of deadlines. The caller holds c.mu.
func (p *deadlines) unlimit(w *waiter) {
	if w.older != nil {
		w.older.newer = w.newer
	} else {
		p.oldest = w.newer
	}
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		p.newest = w.older
	}
	w.listed, w.older, w.newer = false, nil, nil
}

// tickAt schedules tick for the deadline of the oldest call, instead of a later one. It is called on
// the loop. The caller holds c.mu.
func (p *deadlines) tickAt(now time.Time) {
	if p.ticking {
		p.timer.stop()
	}
	p.ticking, p.next = true, p.oldest.req.origin.deadline
	p.timer.start(p.l, p.oldest.req.due().Sub(now), p.tick)
}

// expireOldest ends the calls that are at their deadlines.
func (p *deadlines) expireOldest() {
	c := p.c
	now := c.clock.now()
	c.mu.Lock()
	var cancels []*Envelope
	for w := p.oldest; w != nil && !now.Before(w.req.due()); w = p.oldest {
		c.conclude(w, expired)
		cancels = append(cancels, c.cancelOf(w))
		w.wakeIfDue()
	}
	if p.oldest != nil {
		p.tickAt(now)
	} else {
		p.ticking = false
	}
	c.mu.Unlock()
	for _, e := range cancels {
		c.sendCancel(e)
	}
}

// limit ends a stream at its deadline, whether it is read or not.
func (c *Caller) limit(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended == waiting {
		w.among.limit(w)
	}
}
