package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
)

// Limiter bounds how many borrowers use something at the same time. A token belongs to the
// task that borrowed it, or to the value that it was borrowed for. So, unlike a Semaphore,
// a Limiter notices a borrower that takes a second token, or returns a token that it does
// not have. The number of tokens can change. It corresponds to Trio's CapacityLimiter.
// Make one with NewLimiter.
type Limiter struct {
	affinity
	total     int
	borrowed  int
	borrowers map[any]bool // true if the borrower has a token, false if it waits
	waiting   waitQueue[any]
}

// NewLimiter makes a limiter with total tokens.
func NewLimiter(total int) *Limiter {
	if total < 0 {
		panic("cosync: NewLimiter with a negative total")
	}
	return &Limiter{total: total, borrowers: make(map[any]bool)}
}

// Acquire waits for a token for the calling task. It panics if the task has a token.
func (l *Limiter) Acquire(ctx context.Context) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	l.checkTask(w, "Limiter")
	return l.acquire(ctx, w, spindle.Current(ctx))
}

// AcquireFor waits for a token for a borrower, which can be any comparable value, for
// example a connection or a user. It panics if the borrower has a token or waits for one.
func (l *Limiter) AcquireFor(ctx context.Context, borrower any) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	l.checkTask(w, "Limiter")
	return l.acquire(ctx, w, borrower)
}

func (l *Limiter) acquire(ctx context.Context, w spindle.Waker, borrower any) error {
	l.mustBeNew(borrower)
	if l.borrowed < l.total {
		l.lend(borrower)
		w.Pass()
		return nil
	}
	l.borrowers[borrower] = false
	l.waiting.object = (*limiterProbe)(l)
	_, err := l.waiting.wait(ctx, w, "Limiter.Acquire", borrower)
	if err != nil {
		delete(l.borrowers, borrower)
	}
	return err
}

// TryAcquireFor borrows a token for a borrower if one is free. It reports whether it did. The
// borrower of the calling task is spindle.Current(ctx).
func (l *Limiter) TryAcquireFor(borrower any) bool {
	l.checkCaller("Limiter")
	l.mustBeNew(borrower)
	if l.borrowed >= l.total {
		return false
	}
	l.lend(borrower)
	return true
}

// Release returns the calling task's token. It panics if the task has none.
func (l *Limiter) Release() {
	l.checkCaller("Limiter")
	l.ReleaseFor(spindle.Current(coro.Here(l.l)))
}

// ReleaseFor returns a borrower's token. It panics if the borrower has none.
func (l *Limiter) ReleaseFor(borrower any) {
	l.checkCaller("Limiter")
	if !l.borrowers[borrower] {
		panic("cosync: Release of a Limiter by a borrower that has no token")
	}
	delete(l.borrowers, borrower)
	l.borrowed--
	l.serve()
}

// SetTotal changes the number of tokens. Additional tokens go to waiting borrowers at
// once. If the new number is lower, borrowers keep their tokens, and returned tokens are
// not lent again until no more than total are lent.
func (l *Limiter) SetTotal(total int) {
	l.checkCaller("Limiter")
	if total < 0 {
		panic("cosync: SetTotal of a Limiter with a negative total")
	}
	l.total = total
	l.serve()
}

func (l *Limiter) serve() {
	for l.borrowed < l.total {
		w := l.waiting.take()
		if w == nil {
			return
		}
		l.lend(w.value)
		w.waker.Wake(nil)
	}
}

func (l *Limiter) lend(borrower any) {
	l.borrowers[borrower] = true
	l.borrowed++
}

func (l *Limiter) mustBeNew(borrower any) {
	has, known := l.borrowers[borrower]
	switch {
	case borrower == nil, borrower == (*spindle.Task)(nil): // of a callback
		panic("cosync: Acquire of a Limiter for a nil borrower")
	case has:
		panic("cosync: Acquire of a Limiter by a borrower that has a token")
	case known:
		panic("cosync: Acquire of a Limiter by a borrower that waits for a token")
	}
}

// Statistics returns the present use of the limiter. After SetTotal has lowered the
// number of tokens, Used can exceed Capacity.
func (l *Limiter) Statistics() Statistics {
	l.checkReader("Limiter")
	return Statistics{Used: l.borrowed, Capacity: l.total, Waiting: l.waiting.n}
}
