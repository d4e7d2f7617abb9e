package relay

import (
	"maps"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
)

// home is a loop with tasks that call, or all goroutines that do. Replies come from other
// goroutines; home brings them to the loop, many at a time. It also has the deadlines.
type home struct {
	c    *Caller
	l    *loop.Loop // nil for goroutines
	take func()     // wakes the tasks; called on the loop
	tick func()     // ends calls at their deadlines; called on the loop, or on a goroutine

	// Guarded by c.mu.
	first, last    *waiter // to be woken
	scheduled      bool    // take will be called
	oldest, newest *waiter // calls with the deadline CallerOptions.Timeout
	ticking        bool    // tick will be called

	// Waiters of calls that have ended. Loop goroutine only; for goroutines, guarded by c.mu.
	spare  *waiter
	spares int
}

func (c *Caller) newHome(l *loop.Loop) *home {
	p := &home{c: c, l: l}
	p.take, p.tick = p.wakeAll, p.expireOldest
	return p
}

// homeOf returns the home of calls on a loop. It is called on the loop.
func (c *Caller) homeOf(l *loop.Loop) *home {
	if p := c.recent.Load(); p != nil && p.l == l {
		return p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.homes[l]
	if p == nil {
		maps.DeleteFunc(c.homes, func(l *loop.Loop, _ *home) bool {
			select {
			case <-l.Done():
				return true
			default:
				return false
			}
		})
		p = c.newHome(l)
		c.homes[l] = p
	}
	c.recent.Store(p)
	return p
}

// wake wakes the waiter's goroutine or task. The caller holds c.mu.
func (w *waiter) wake() {
	p, l := w.home, w.Loop()
	if l == nil || l.Owns() || l != p.l { // not p.l: a stream that is read on another loop than it was opened on
		w.Wake()
		return
	}
	if p.last != nil {
		p.last.next = w
	} else {
		p.first = w
	}
	p.last = w
	if !p.scheduled {
		p.scheduled = true
		_ = p.l.Internal().Post(atclose.Run, p.take) // a closed loop has no tasks
	}
}

// wakeAll wakes the tasks with replies.
func (p *home) wakeAll() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.scheduled = false
	for w := p.first; w != nil; {
		next := w.next
		w.next = nil
		w.Wake()
		w = next
	}
	p.first, p.last = nil, nil
}

// limit makes a call end at its deadline, which is that of the Caller: later than those of
// calls that began before it. So one timer is enough for all. A call that had to wait before
// it was sent is put in its place. The caller holds c.mu, on the loop.
func (p *home) limit(w *waiter) {
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
	if !p.ticking {
		p.tickAt(p.c.clock.now())
	}
}

// unlimit takes a call out of the list of deadlines. The caller holds c.mu.
func (p *home) unlimit(w *waiter) {
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

// tickAt makes tick be called at the deadline of the oldest call. It is called on the loop.
// The caller holds c.mu.
func (p *home) tickAt(now time.Time) {
	p.ticking = true
	in := p.oldest.req.due().Sub(now)
	if p.l != nil {
		p.l.CallLater(in, p.tick)
	} else {
		after(in, p.tick)
	}
}

// expireOldest ends the calls that are at their deadlines.
func (p *home) expireOldest() {
	c := p.c
	now := c.clock.now()
	c.mu.Lock()
	p.ticking = false
	var cancels []*Envelope
	for w := p.oldest; w != nil && !now.Before(w.req.due()); w = p.oldest {
		c.conclude(w, expired)
		cancels = append(cancels, c.cancelOf(w))
		w.wakeIfDue()
	}
	if p.oldest != nil {
		p.tickAt(now)
	}
	c.mu.Unlock()
	for _, e := range cancels {
		c.sendCancel(e)
	}
}
