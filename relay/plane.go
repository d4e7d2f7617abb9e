package relay

import (
	"maps"
	"runtime"
	"time"

	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
)

// plane is a loop with tasks that call. Replies come from other goroutines; plane brings
// them to the loop, many at a time.
//
// A loop with nothing to do sleeps in the kernel, and waking it takes a hundred times as long
// as a short handler. So when a task starts to wait for a reply, the loop lingers: it lets
// other goroutines run, and looks for replies before it goes to sleep. If lingering does not
// pay, because handlers take long or other goroutines need the processor, it pauses for a
// growing number of calls.
type plane struct {
	c     *Caller
	l     *loop.Loop
	take  func() // wakes the tasks; called on the loop
	stay  func() // lingers, and then takes
	stays bool   // the loop may linger: it is not simulated

	// Guarded by c.mu.
	first, last *waiter // to be woken
	scheduled   bool    // take or stay will be called

	// Loop goroutine only.
	skip   int // calls before the loop lingers again
	misses int // times that lingering did not pay, in a row
}

const (
	lingerYields = 10                    // how often the loop lets other goroutines run
	lingerLimit  = 50 * time.Microsecond // the time that this may take
	lingerMisses = 12                    // a pause is at most two to the power of this
)

// plane returns the plane of a loop. The caller holds c.mu.
func (c *Caller) plane(l *loop.Loop) *plane {
	p := c.planes[l]
	if p == nil {
		maps.DeleteFunc(c.planes, func(l *loop.Loop, _ *plane) bool {
			select {
			case <-l.Done():
				return true
			default:
				return false
			}
		})
		p = &plane{c: c, l: l, stays: l.Internal().Kernel().Real()}
		p.take, p.stay = p.wakeAll, p.linger
		c.planes[l] = p
	}
	return p
}

// wake wakes the waiter's goroutine or task, which has been marked by due. The caller holds
// c.mu.
func (w *waiter) wake() {
	if w.l == nil {
		w.signal <- struct{}{}
		return
	}
	if w.l.Owns() {
		w.waker.Wake(nil)
		return
	}
	p := w.plane
	if p.last != nil {
		p.last.next = w
	} else {
		p.first = w
	}
	p.last = w
	if !p.scheduled {
		p.scheduled = true
		_ = p.l.Internal().Post(loopcore.RunAtClose, p.take) // a closed loop has no tasks
	}
}

// mayLinger makes the loop linger in a coming turn. The caller holds c.mu, on the loop.
func (p *plane) mayLinger() {
	switch {
	case p.scheduled || !p.stays:
	case p.skip > 0:
		p.skip--
	default:
		p.scheduled = true
		p.l.Internal().CallSoon(loopcore.RunAtClose, p.stay)
	}
}

// linger lets other goroutines run, until there is a reply.
func (p *plane) linger() {
	began := p.l.Time()
	found := false
	for i := 0; i < lingerYields && !found && p.l.Time()-began < lingerLimit; i++ {
		runtime.Gosched()
		p.c.mu.Lock()
		found = p.first != nil
		p.c.mu.Unlock()
	}
	if found && p.l.Time()-began < lingerLimit {
		p.misses = 0
	} else {
		p.misses = min(p.misses+1, lingerMisses)
		p.skip = 1 << p.misses
	}
	p.wakeAll()
}

// wakeAll wakes the tasks with replies.
func (p *plane) wakeAll() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.scheduled = false
	for w := p.first; w != nil; {
		next := w.next
		w.next = nil
		w.waker.Wake(nil)
		w = next
	}
	p.first, p.last = nil, nil
}
