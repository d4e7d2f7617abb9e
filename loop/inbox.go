package loopcore

import (
	"context"
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
	others []Coroutine // guarded by mu
	closed bool        // guarded by mu

	spare       []func()    // the consumer's; swapped with fns
	spareOthers []Coroutine // the consumer's; swapped with others
}

// keepInbox is the capacity that an inbox may keep after a flood.
const keepInbox = 1 << 16

// Post runs fn on the loop, in the Normal lane. Close treats fn as at says. Any goroutine
// may call it. After Close it returns ErrClosed, and fn does not run, whatever at is.
func (c *Loop) Post(at AtClose, fn func()) error {
	if fn == nil {
		panic("loop: Post with a nil callback")
	}
	if at == ReportAtClose {
		return c.PostEntry(fn, nil)
	}
	return c.PostEntry(nil, at.entry(fn))
}

// AfterFunc calls fn on the loop once ctx has ended, unless stop is called before. If the
// loop closes first, fn is not called. Any goroutine may call AfterFunc and stop.
func (c *Loop) AfterFunc(ctx context.Context, fn func()) (stop func() bool) {
	return c.config.Kernel.AfterFunc(ctx, func() { _ = c.Post(DropAtClose, fn) })
}

// PostEntry adds fn to the inbox, or co if fn is nil. Any goroutine may call it.
func (c *Loop) PostEntry(fn func(), co Coroutine) error {
	if c.witness != nil && c.runsElsewhere() {
		c.witness.Foreign()
	}
	first, err := c.inbox.put(fn, co)
	if err == nil && first {
		c.Interrupt()
	}
	return err
}

func (b *inbox) put(fn func(), co Coroutine) (first bool, err error) {
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

// TakeInbox moves what was posted into the Normal lane.
func (c *Loop) TakeInbox() {
	b := &c.inbox
	b.mu.Lock()
	fns, others := b.fns, b.others
	b.fns, b.others = b.spare[:0], b.spareOthers[:0]
	b.waiting.Store(false)
	b.mu.Unlock()
	next := 0
	for _, fn := range fns {
		if fn != nil {
			c.lanes[Normal].push(fn)
			continue
		}
		c.lanes[Normal].pushCoroutine(others[next])
		next++
	}
	c.posted += uint64(len(fns))
	clear(fns)
	clear(others)
	if cap(fns) > keepInbox {
		fns, others = nil, nil
	}
	b.spare, b.spareOthers = fns, others
}

// InboxWaiting reports whether the loop must look at its inbox, or at what was published
// before NoticeInbox.
func (c *Loop) InboxWaiting() bool { return c.inbox.waiting.Load() }

// NoticeInbox makes InboxWaiting true, so that the loop does not wait in the kernel. Any
// goroutine may call it.
func (c *Loop) NoticeInbox() { c.inbox.waiting.Store(true) }

// Posted returns the number of entries that were taken from the inbox.
func (c *Loop) Posted() uint64 { return c.posted }

// InboxLen returns the number of entries in the inbox. Any goroutine may call it.
func (c *Loop) InboxLen() int {
	b := &c.inbox
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
