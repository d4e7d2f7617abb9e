package sim

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/simnet"
)

// A program that blocks its goroutine stops its world. In a bubble most such waits
// let the bubble's time pass, which nothing else does while a program runs: see
// bubble.overslept. The rest (a mutex, the system, anything outside of a bubble) is
// found by a stall, which looks at the world from outside, in real time.

// Times of a stall, all of them real.
const (
	stallPeriod = 50 * time.Millisecond // between two looks
	stallLooks  = 2                     // at the same beat before the goroutine is looked at
	stallTold   = 2 * time.Second       // when a block that does not end is printed
	busyTold    = 10 * time.Second      // when a program that only computes is
)

// stall watches a world until end is called.
type stall struct {
	world atomic.Pointer[simnet.World] // nil before there is one

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	over    bool
	beat    uint64
	same    int // looks at this beat
	blocked *BlockedError
	told    bool
}

// watchStall starts to watch a world, which may be nil if it is set later. It is to
// be called outside of the world's bubble.
func watchStall(w *simnet.World) *stall {
	s := &stall{}
	s.world.Store(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(stallPeriod, s.look)
	return s
}

// end may be called on nil.
func (s *stall) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.timer.Stop()
}

// look compares the world's beat with that of the last look.
func (s *stall) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	defer s.timer.Reset(stallPeriod)
	w := s.world.Load()
	if w == nil {
		return
	}
	if beat := w.Beat(); beat != s.beat {
		s.beat, s.same, s.blocked, s.told = beat, 0, nil, false
		return
	}
	s.same++
	stalled := time.Duration(s.same) * stallPeriod
	switch {
	case s.same == stallLooks || stalled%time.Second == 0 && s.blocked == nil && stalled < busyTold:
		// A goroutine that is blocked at two looks in a row has not made any
		// progress in between.
		if s.blocked = w.Blocked(); s.blocked != nil {
			w.Report(s.blocked)
		}
	case s.blocked != nil && stalled >= stallTold && !s.told:
		s.told = true
		fmt.Fprintln(os.Stderr, s.blocked)
	case s.blocked == nil && stalled >= busyTold && !s.told:
		s.told = true
		host, stack := w.Runner()
		fmt.Fprintf(os.Stderr, "sim: a program on host %s has run for %v without waiting, at %s\n%s\n", host, stalled, goid.Line(stack), stack)
	}
}
