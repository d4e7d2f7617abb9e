package simkernel

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// Contexts end by what programs do, or by timers in a bubble. Nobody is told by
// a goroutine: each process looks at those it follows, in the order in which it
// began to, whenever it is in Wait; and before time passes, the world looks for
// those who have one that has ended.

// follows are the contexts that a process follows.
type follows struct {
	n   atomic.Int32 // how many there are; any goroutine
	mu  sync.Mutex
	all []*followed // guarded by mu
}

type followed struct {
	ctx  context.Context
	fn   func()
	stop func() bool // of what wakes the bubble; nil for none
}

// AfterFunc may be called from any goroutine.
func (p *Process) AfterFunc(ctx context.Context, fn func()) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	f := &followed{ctx: ctx, fn: fn}
	if b := p.w.bubble; b != nil {
		f.stop = context.AfterFunc(ctx, b.Poke)
	}
	s := &p.follows
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, f)
	s.n.Add(1)
	p.w.following.Add(1)
	return func() bool { return s.remove(p.w, f) }
}

func (s *follows) remove(w *World, f *followed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.all, f)
	if i < 0 {
		return false
	}
	s.all = slices.Delete(s.all, i, i+1)
	s.leave(w, f)
	return true
}

func (s *follows) leave(w *World, f *followed) {
	s.n.Add(-1)
	w.following.Add(-1)
	if f.stop != nil {
		f.stop()
	}
}

// ended takes out those whose context has ended.
func (s *follows) ended(w *World) (over []*followed) {
	if s.n.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(f *followed) bool {
		if f.ctx.Err() == nil {
			return false
		}
		s.leave(w, f)
		over = append(over, f)
		return true
	})
	return over
}

// call calls the functions of those that have ended, and tells whether there were
// any.
func (s *follows) call(w *World) bool {
	over := s.ended(w)
	for _, f := range over {
		f.fn()
	}
	return len(over) > 0
}

// drop is for the end of a process.
func (s *follows) drop(w *World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		s.leave(w, f)
	}
	s.all = nil
}

// due tells whether one of them has ended.
func (s *follows) due() bool {
	if s.n.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(f *followed) bool { return f.ctx.Err() != nil })
}

// tellFollowers lets those go on whose contexts have ended.
func (w *World) tellFollowers() (told bool) {
	if w.following.Load() == 0 {
		return false
	}
	for _, p := range w.processes {
		if p.state == waiting && p.follows.due() {
			p.goOn()
			told = true
		}
	}
	return told
}

// Bubble is another clock that is to show the same time: that of a
// testing/synctest bubble in which the world is driven.
type Bubble interface {
	// Pass lets time pass in the bubble, until d has passed or until Poke, and
	// returns how much has passed since the bubble began.
	Pass(d time.Duration) time.Duration
	// Begin is called when programs begin to run. It returns how much time has
	// passed since the bubble began.
	Begin() time.Duration
	// Poke ends Pass. It may be called from any goroutine of the bubble.
	Poke()
	// Seeded tells whether crypto/rand draws from the seed in the bubble.
	Seeded() bool
	// Strays fails if there are goroutines in the bubble that are not ours.
	Strays() error
}

// OwnSecrets tells whether crypto/rand draws from the world's seed.
func (p *Process) OwnSecrets() bool { return p.w.Seeded() }

// Seeded reports whether crypto/rand draws from the world's seed.
func (w *World) Seeded() bool { return w.bubble != nil && w.bubble.Seeded() }

// SetBubble makes time pass in a bubble too, from the beginning.
func (w *World) SetBubble(b Bubble) {
	w.bubble = b
	w.now.Store(int64(b.Begin()))
}

// InBubble reports whether time passes in a bubble too.
func (w *World) InBubble() bool { return w.bubble != nil }

// patience is how long the world waits for a context to end by a timer of the
// bubble when nothing else is to come.
const patience = 24 * time.Hour

func (w *World) passInBubble(at time.Duration, ok bool) error {
	if err := w.bubble.Strays(); err != nil {
		return err
	}
	if !ok {
		if w.following.Load() == 0 {
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

// Attend takes the loop's word for which goroutine may use it.
func (p *Process) Attend(foreign func() bool, owner func() uintptr) {
	p.foreign = foreign
	p.owner.Store(&owner)
}

// Foreign is called by a goroutine that is not the loop's and has handed it
// something. The driver may, and so may another program of the world whose turn it
// is; a goroutine that somebody has started may not.
func (p *Process) Foreign() {
	if p.w.driver.Load() == goid.Current() {
		return
	}
	c := p.w.current.Load()
	if c == nil { // a crew whose leader drives the world itself
		c = p.leader
	}
	if c != nil && c != p && (c.foreign == nil || !c.foreign()) {
		return
	}
	p.w.report(&StrayError{Host: p.host.name, Stack: debug.Stack()})
}

func (w *World) report(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stray == nil {
		w.stray = err
	}
	w.called.Store(true)
}

// StrayError tells which goroutine has no place in a simulated run.
type StrayError struct {
	Host  string // "" if it is not known
	Stack []byte // of the goroutine; its end tells where it was started
}

func (e *StrayError) Error() string {
	on := ""
	if e.Host != "" {
		on = " on host " + e.Host
	}
	return fmt.Sprintf("%v%s:\n%s", ErrStray, on, e.Stack)
}

// Unwrap returns ErrStray.
func (e *StrayError) Unwrap() error { return ErrStray }
