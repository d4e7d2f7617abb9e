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
	fns    []func() // guarded by mu
	weak   int      // of those that have not run; guarded by mu
	closed bool     // guarded by mu

	spare []func() // the consumer's; swapped with fns
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
	return l.post(fn, 0)
}

// PostWeak is Post for whoever learns by Done, or otherwise, that fn will never
// run: then Close does not tell of it as lost.
func (l *Loop) PostWeak(fn func()) error {
	if fn == nil {
		panic("loop: PostWeak with a nil callback")
	}
	return l.post(func() {
		l.inbox.ranWeak()
		fn()
	}, 1)
}

func (l *Loop) post(fn func(), weak int) error {
	if l.witness != nil && l.elsewhere() {
		l.witness.Foreign()
	}
	first, err := l.inbox.put(fn, weak)
	if err == nil && first {
		l.interrupt()
	}
	return err
}

func (b *inbox) put(fn func(), weak int) (first bool, err error) {
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
	b.weak += weak
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
	fns := b.fns
	b.fns = b.spare[:0]
	b.waiting.Store(false)
	b.mu.Unlock()
	for _, fn := range fns {
		l.lanes[Normal].push(fn)
	}
	l.stats.Posted += uint64(len(fns))
	clear(fns)
	if cap(fns) > keepInbox {
		fns = nil
	}
	b.spare = fns
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fns)
}

func (b *inbox) ranWeak() {
	b.mu.Lock()
	b.weak--
	b.mu.Unlock()
}

// close refuses what comes from now on and tells how many are left inside, less
// those, here or already in the lane, that need not be told of.
func (b *inbox) close() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	n := len(b.fns) - b.weak
	b.fns = nil
	return n
}
