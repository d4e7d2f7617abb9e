package simkernel

import (
	"cmp"
	"time"
)

// Bubble is the testing/synctest bubble in which the world is driven. Its clock shows the
// world's time.
type Bubble interface {
	// Pass lets time pass in the bubble, until d has passed or Poke is called. It
	// returns the time since the bubble began.
	Pass(d time.Duration) time.Duration
	// Begin is called when programs begin to run. It returns the time since the
	// bubble began.
	Begin() time.Duration
	// Slept returns the time that has passed in the bubble since Begin or Pass. It is 0
	// unless a program has slept.
	Slept() time.Duration
	// Poke ends Pass. It may be called from any goroutine of the bubble.
	Poke()
	// Seeded reports whether crypto/rand draws from the seed in the bubble.
	Seeded() bool
	// Strays fails if the bubble has goroutines that do not belong to the simulation.
	Strays() error
}

// OwnSecrets reports whether crypto/rand draws from the world's seed.
func (p *Process) OwnSecrets() bool { return p.w.Seeded() }

// Seeded reports whether crypto/rand draws from the world's seed.
func (w *World) Seeded() bool { return w.bubble != nil && w.bubble.Seeded() }

// SetBubble makes the world share the time of a bubble, from the beginning.
func (w *World) SetBubble(b Bubble) {
	w.bubble = b
	w.now.Store(int64(b.Begin()))
}

// InBubble reports whether the world shares the time of a bubble.
func (w *World) InBubble() bool { return w.bubble != nil }

// patience is how long the world waits for a timer of the bubble to end a context when
// its queue is empty.
const patience = 24 * time.Hour

func (w *World) passInBubble(at time.Duration, ok bool) error {
	if err := cmp.Or(w.bubble.Strays(), w.slept()); err != nil {
		return err
	}
	if !ok {
		if w.watchedContexts.Load() == 0 {
			return ErrDeadlock
		}
		before := w.Now()
		w.now.Store(int64(w.bubble.Pass(patience)))
		if w.Now()-before < patience {
			return nil
		}
		return ErrDeadlock
	}
	w.now.Store(int64(w.bubble.Pass(at - w.Now())))
	return nil
}

// slept returns an error if time has passed in the bubble while a program ran.
func (w *World) slept() error {
	if w.bubble == nil || w.bubble.Slept() == 0 {
		return nil
	}
	return &BlockedError{Passed: w.bubble.Slept()}
}
