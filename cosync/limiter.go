package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Limiter bounds how many do something at once, and knows who they are: a token
// belongs to the task that borrowed it, or to whatever it was borrowed for. So
// it can tell what a Semaphore cannot: one who takes a second token, or returns
// what another has. The number of tokens can change. It is Trio's
// CapacityLimiter. Make one with NewLimiter.
type Limiter struct {
	home
	total    int
	borrowed int
	who      map[any]bool // true: has a token; false: waits for one
	waiting  line[any]

	// ctx is the one it was last used with. Any of the loop's tells who is
	// calling, and Release has none of its own.
	ctx context.Context
}

// NewLimiter makes a limiter with total tokens.
func NewLimiter(total int) *Limiter {
	if total < 0 {
		panic("cosync: NewLimiter with a negative total")
	}
	return &Limiter{total: total, who: make(map[any]bool)}
}

// Acquire waits for a token for the calling task. It panics if the task has one.
func (l *Limiter) Acquire(ctx context.Context) error {
	l.enter(ctx, "Limiter")
	l.ctx = ctx
	return l.AcquireFor(ctx, spindle.Current(ctx))
}

// AcquireFor waits for a token for a borrower, which can be any comparable value:
// a connection, a user. It panics if the borrower has one or waits for one.
func (l *Limiter) AcquireFor(ctx context.Context, borrower any) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	l.admit(w, "Limiter")
	l.mustBeNew(borrower)
	if l.borrowed < l.total {
		l.lend(borrower)
		w.Pass()
		return nil
	}
	l.who[borrower] = false
	_, err = l.waiting.wait(ctx, w, "Limiter.Acquire", borrower)
	if err != nil {
		delete(l.who, borrower)
	}
	return err
}

// TryAcquire borrows a token for the calling task if there is one.
func (l *Limiter) TryAcquire(ctx context.Context) bool {
	l.enter(ctx, "Limiter")
	l.ctx = ctx
	return l.TryAcquireFor(spindle.Current(ctx))
}

// TryAcquireFor borrows a token for a borrower if there is one.
func (l *Limiter) TryAcquireFor(borrower any) bool {
	l.here("Limiter")
	l.mustBeNew(borrower)
	if l.borrowed >= l.total {
		return false
	}
	l.lend(borrower)
	return true
}

// Release returns the calling task's token. It panics if the task has none.
func (l *Limiter) Release() {
	l.here("Limiter")
	if l.ctx == nil {
		l.ReleaseFor(nil) // no task has used it
	}
	l.ReleaseFor(spindle.Current(l.ctx))
}

// ReleaseFor returns a borrower's token. It panics if the borrower has none.
func (l *Limiter) ReleaseFor(borrower any) {
	l.here("Limiter")
	if !l.who[borrower] {
		panic("cosync: Release of a Limiter by one who has no token of it")
	}
	delete(l.who, borrower)
	l.borrowed--
	l.serve()
}

// SetTotal changes the number of tokens. More are lent at once to those who
// wait; if there are fewer than are lent, nobody loses one, and returned tokens
// are not lent again until the number is right.
func (l *Limiter) SetTotal(total int) {
	l.here("Limiter")
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
	l.who[borrower] = true
	l.borrowed++
}

func (l *Limiter) mustBeNew(borrower any) {
	has, known := l.who[borrower]
	switch {
	case has:
		panic("cosync: Acquire of a Limiter by one who has a token of it")
	case known:
		panic("cosync: Acquire of a Limiter by one who waits for a token of it")
	}
}

// Statistics returns the present use of the limiter. After SetTotal has lowered the
// number of tokens, Used can exceed Capacity.
func (l *Limiter) Statistics() Statistics {
	l.look("Limiter")
	return Statistics{Used: l.borrowed, Capacity: l.total, Waiting: l.waiting.n}
}
