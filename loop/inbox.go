package loop

import (
	"sync"
	"sync/atomic"
)

// inbox is where other goroutines leave callbacks. A mutex and a slice that is
// swapped whole: lock-free queues were slower here, because the consumer takes
// everything at once anyway.
type inbox struct {
	waiting atomic.Bool // there is something to take, or Run is to end: look

	mu     sync.Mutex
	fns    []func()    // guarded by mu; nil stands for the next of others
	others []Coroutine // guarded by mu
	closed bool        // guarded by mu

	spare       []func()    // the consumer's; swapped with fns
	spareOthers []Coroutine // the consumer's; swapped with others
}

// keepInbox is how large an inbox's memory may stay after a flood.
const keepInbox = 1 << 16

// Post runs fn on the loop, in the Normal lane. It is the entry for other
// goroutines, and may be called from any, also before Run and from callbacks.
// After Close it returns ErrClosed, and fn will not run.
func (l *Loop) Post(fn func()) error {
	if fn == nil {
		panic("loop: Post with a nil callback")
	}
	return l.post(fn, nil)
}

// post adds fn to the inbox, or co if fn is nil.
func (l *Loop) post(fn func(), co Coroutine) error {
	if l.witness != nil && l.elsewhere() {
		l.witness.Foreign()
	}
	first, err := l.inbox.put(fn, co)
	if err == nil && first {
		l.interrupt()
	}
	return err
}

func (b *inbox) put(fn func(), co Coroutine) (first bool, err error) {
	// The lock is held for a few instructions; a try or two is cheaper than
	// queueing for it.
	locked := false
	for range 8 {
		if locked = b.mu.TryLock(); locked {
			break
		}
	}
	if !locked {
		b.mu.Lock()
	}
	if b.closed {
		b.mu.Unlock()
		return false, ErrClosed
	}
	first = len(b.fns) == 0
	b.fns = append(b.fns, fn)
	if fn == nil {
		b.others = append(b.others, co)
	}
	if first {
		b.waiting.Store(true)
	}
	b.mu.Unlock()
	return first, nil
}

// takeInbox moves what was posted into the Normal lane.
func (l *Loop) takeInbox() {
	b := &l.inbox
	b.mu.Lock()
	fns, others := b.fns, b.others
	b.fns, b.others = b.spare[:0], b.spareOthers[:0]
	b.waiting.Store(false)
	b.mu.Unlock()
	next := 0
	for _, fn := range fns {
		if fn != nil {
			l.lanes[Normal].push(fn)
			continue
		}
		l.lanes[Normal].pushCoroutine(others[next])
		next++
	}
	l.stats.Posted += uint64(len(fns))
	clear(fns)
	clear(others)
	if cap(fns) > keepInbox {
		fns, others = nil, nil
	}
	b.spare, b.spareOthers = fns, others
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fns)
}

// close refuses what comes from now on.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
