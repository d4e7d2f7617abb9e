package loop

import (
	"sync"
	"sync/atomic"
)

// inbox holds the callbacks that other goroutines post. It is a mutex and a slice that is
// swapped as a whole: lock-free queues were slower here, because the consumer takes
// everything at once anyway.
type inbox struct {
	waiting atomic.Bool // the loop must look: something was posted, or Run is to end

	mu     sync.Mutex
	fns    []func()    // guarded by mu; nil stands for the next of others
	others []coroutine // guarded by mu
	closed bool        // guarded by mu

	spare       []func()    // the consumer's; swapped with fns
	spareOthers []coroutine // the consumer's; swapped with others
}

// keepInbox is the capacity that an inbox may keep after a flood.
const keepInbox = 1 << 16

// postEntry adds fn to the inbox, or co if fn is nil. Any goroutine may call it.
func (l *Loop) postEntry(fn func(), co coroutine) error {
	if l.witness != nil && l.runsElsewhere() {
		l.witness.Foreign()
	}
	first, err := l.inbox.put(fn, co)
	if err == nil && first {
		l.interrupt()
	}
	return err
}

func (b *inbox) put(fn func(), co coroutine) (first bool, err error) {
	// The lock is held for a few instructions; a few tries are cheaper than
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

// interrupt wakes the loop if it waits in the kernel. The caller has published what the
// loop is to see, and the loop looks for it after it made the pulse even: one of the two
// always sees the other. Any goroutine may call it.
func (l *Loop) interrupt() {
	if l.pulse.Load()&1 == 0 {
		if l.goWait.active.Load() {
			l.goWait.notify()
			return
		}
		l.k.Wake()
	}
}

// attend makes the loop look at what was published before, and does not let it wait. Any
// goroutine may call it.
func (l *Loop) attend() {
	l.inbox.waiting.Store(true)
	l.interrupt()
}

// len returns the number of entries. Any goroutine may call it.
func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fns)
}

// close makes later posts fail.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
