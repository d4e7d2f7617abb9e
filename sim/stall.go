package sim

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// A program that blocks its goroutine stops its world. In a bubble most such waits
// let the bubble's time pass, which nothing else does while a program runs: see
// bubble.overslept. The rest (a mutex, a system call, anything outside of a bubble)
// is detected by a stall, which watches the world from outside, in real time.

// The intervals of a stall, in real time.
const (
	stallPeriod = 10 * time.Millisecond // between two checks
	sleepChecks = 2                     // checks without progress before a goroutine that sleeps is reported
	stallChecks = 10                    // checks without progress before one that waits is suspected
	stallReport = 2 * time.Second       // after which a block that does not end is printed
	busyReport  = 10 * time.Second      // after which a program that only computes is printed
)

// maxSleepScan is the number of goroutines beyond which no stack is taken at sleepChecks:
// a stack costs a dump of all goroutines, and a program that computes must not pay for it
// in every turn.
const maxSleepScan = 256

// stall watches a world until end is called.
type stall struct {
	world atomic.Pointer[simkernel.World] // nil before there is one
	over  atomic.Bool                     // end was called

	mu       sync.Mutex // guards the fields below
	timer    *time.Timer
	beat     uint64
	same     int                     // checks that found the same beat
	suspect  *simkernel.BlockedError // what the last look at the goroutine found
	blocked  *simkernel.BlockedError // what was reported
	reported bool
}

// watchStall starts to watch a world. The world may be nil and set later. The caller
// must be outside of the world's bubble, where time is real.
func watchStall(w *simkernel.World) *stall {
	s := &stall{}
	s.world.Store(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(stallPeriod, s.check)
	return s
}

// end stops watching. It does nothing if s is nil.
func (s *stall) end() {
	if s == nil {
		return
	}
	s.over.Store(true) // before the lock: a check must not take the wait for it for a block
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
}

// check compares the world's beat with that of the last check and reports a program
// that makes no progress.
func (s *stall) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return
	}
	defer s.timer.Reset(stallPeriod)
	w := s.world.Load()
	if w == nil {
		return
	}
	if beat := w.Beat(); beat != s.beat {
		s.beat, s.same, s.suspect, s.blocked, s.reported = beat, 0, nil, nil, false
		return
	}
	s.same++
	stalled := time.Duration(s.same) * stallPeriod
	switch {
	case s.same == sleepChecks && runtime.NumGoroutine() <= maxSleepScan:
		// No load makes a goroutine sleep. Any other wait can be a short one, for a
		// lock or a system call, that a busy machine makes longer.
		if b := w.Blocked(); b != nil && b.State == "sleep" && !s.over.Load() {
			s.blocked = b
			w.Report(b)
		}
	case s.blocked == nil && s.lookDue():
		if s.confirm(w.Blocked()) && !s.over.Load() {
			w.Report(s.blocked)
		}
	case s.blocked != nil && stalled >= stallReport && !s.reported:
		s.reported = true
		fmt.Fprintln(os.Stderr, s.blocked)
	case s.blocked == nil && stalled >= busyReport && !s.reported:
		s.reported = true
		host, stack := w.Runner()
		fmt.Fprintf(os.Stderr, "sim: a program on host %s has run for %v without waiting, at %s\n%s\n", host, stalled, goid.Line(stack), stack)
	}
}

// lookDue reports whether this check looks at the goroutine: the two that can first report
// it, then one in each second, and after a look that found it waiting the one that confirms
// it. A look costs a dump of all goroutines.
func (s *stall) lookDue() bool {
	stalled := time.Duration(s.same) * stallPeriod
	first := s.same <= 2*stallChecks || s.suspect != nil
	return s.same%stallChecks == 0 && first || stalled%time.Second == 0 && stalled < busyReport
}

// confirm reports whether a goroutine waits where it waited at the last look, which b
// describes; nil means that it does not wait. Once is not enough: on a busy machine a
// goroutine that gets no CPU makes no progress either, and may be found in a short wait for
// a lock.
func (s *stall) confirm(b *simkernel.BlockedError) bool {
	last := s.suspect
	s.suspect = b
	if b == nil || last == nil || b.State != last.State || b.Line != last.Line {
		return false
	}
	s.blocked = b
	return true
}
