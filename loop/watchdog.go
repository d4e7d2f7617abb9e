package loop

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

// Blocked is the watchdog's report of a turn that does not end.
type Blocked struct {
	For   time.Duration // how long it has lasted, at least
	Stack []byte        // of the callback or task that is running, this very moment

	// Starved reports that the turn does not end because the loop gets too little CPU:
	// its goroutine could run all the time, and got less than half of that. Other
	// goroutines or other processes have the CPUs. The code in Stack is not to blame.
	Starved bool
}

func (b Blocked) String() string {
	if b.Starved {
		return fmt.Sprintf("loop: starved of CPU for %v so far: its goroutine is ready to run, but other goroutines "+
			"or processes have the CPUs. It is here now:\n%s", b.For, b.Stack)
	}
	return fmt.Sprintf("loop: held up for %v so far by a callback (or by many in one turn); "+
		"blocking work belongs in Offload, of a task in spindle.Blocking. It is here now:\n%s", b.For, b.Stack)
}

// watchdog looks at the loop's pulse from a goroutine of its own. The loop pays
// nothing for it but the pulse. When the loop waits in the kernel the watchdog
// sleeps too, so that an idle loop has no wake-ups; the loop calls look when it
// comes back.
type watchdog struct {
	asleep atomic.Bool   // the watchdog waits for look
	wake   chan struct{} // look
	quit   chan struct{} // end
}

const defaultWatchdog = 100 * time.Millisecond

// startWatchdog starts the watchdog of a Run; nil if there is to be none.
func startWatchdog(l *Loop) *watchdog {
	patience := l.opts.Watchdog
	if patience == 0 {
		patience = defaultWatchdog
	}
	if patience < 0 {
		return nil
	}
	d := &watchdog{wake: make(chan struct{}, 1), quit: make(chan struct{})}
	go d.watch(l, patience)
	return d
}

// end does not wait for the goroutine: it may be in a handler that waits for the
// loop.
func (d *watchdog) end() {
	if d != nil {
		close(d.quit)
	}
}

// look is called by the loop when it has waited in the kernel.
func (d *watchdog) look() {
	if d != nil && d.asleep.Load() && d.asleep.CompareAndSwap(true, false) {
		d.wake <- struct{}{}
	}
}

// watch samples the pulse twice per patience, so that a report comes between
// one and one and a half patiences. Each turn is reported once; one that was reported as
// starved is reported again if it blocks.
func (d *watchdog) watch(l *Loop, patience time.Duration) {
	period := max(patience/2, 1)
	tick := time.NewTimer(period)
	defer tick.Stop()
	turn, rest := newSample(l), 0
	for {
		select {
		case <-d.quit:
			return
		case <-tick.C:
		}
		if rest > 0 {
			rest--
		}
		switch pulse := l.pulse.Load(); {
		case pulse&1 == 0:
			if !d.sleep(l) {
				return
			}
			turn = newSample(l)
		case pulse != turn.pulse:
			turn = newSample(l)
		default:
			if turn.due() && rest == 0 {
				rest = restAfter(turn.judge(l), period)
			}
		}
		tick.Reset(period)
	}
}

// restAfter returns for how many ticks no stack may be taken after one that took cost.
// To take one stops all goroutines, the loop's too, for longer the more there are. With
// a hundred thousand it takes seconds, and a watchdog without rest would be what holds
// the loop up. So it takes at most a twentieth of the time.
func restAfter(cost, period time.Duration) int { return int(19 * cost / period) }

// sample is what the watchdog knows of a turn.
type sample struct {
	pulse            uint32
	ticks            int // it has lasted for
	judgeAt          int // ticks at which to look at it
	began            kernel.Usage
	starved, blocked bool // it was reported to be
}

func newSample(l *Loop) sample {
	return sample{pulse: l.pulse.Load(), judgeAt: 2, began: kernel.ReadUsage()}
}

// due counts one more tick of the turn, and reports whether it is time to judge it. A
// turn that was starved is looked at again after twice the time, and so on.
func (s *sample) due() bool {
	s.ticks++
	return !s.blocked && s.ticks >= s.judgeAt
}

// judge reports a turn that has lasted too long. It returns how long it took to look at
// the loop's goroutine.
func (s *sample) judge(l *Loop) (cost time.Duration) {
	before, _, _ := kernel.ReadUsage().Since(s.began)
	owner := l.owner.Load()
	stack := goid.StackOf(goid.NumberOf(owner))
	wall, cpu, ok := kernel.ReadUsage().Since(s.began)
	if l.pulse.Load() != s.pulse || l.owner.Load() != owner {
		return wall - before // the loop has moved on, and the stack may be of any moment
	}
	s.judgeAt = 2 * s.ticks
	starved := ok && canRun(stack) && starves(wall, cpu, kernel.Contenders())
	if !starved || !s.starved {
		s.starved, s.blocked = starved, !starved
		l.reportBlocked(Blocked{For: wall, Stack: stack, Starved: starved})
	}
	return wall - before
}

// canRun reports whether a goroutine does not wait for anything. A dump stops all
// goroutines, so those that were running are runnable in it.
func canRun(stack []byte) bool {
	head, _, _ := bytes.Cut(stack, []byte("\n"))
	_, state, _ := bytes.Cut(head, []byte("["))
	for _, able := range []string{"runnable", "running", "preempted"} {
		if bytes.HasPrefix(state, []byte(able)) {
			return true
		}
	}
	return false
}

// starves reports whether a goroutine that could run all the time got less than half of
// it, if the CPU time of the process was shared evenly among those that could run.
func starves(wall, cpu time.Duration, contenders int) bool {
	return cpu/time.Duration(max(contenders, 1)) < wall/2
}

// sleep waits until the loop comes back from the kernel; false means the end.
func (d *watchdog) sleep(l *Loop) bool {
	d.asleep.Store(true)
	// The loop may have come back, and looked, just before.
	if l.pulse.Load()&1 != 0 && d.asleep.CompareAndSwap(true, false) {
		return true
	}
	select {
	case <-d.wake:
		return true
	case <-d.quit:
		return false
	}
}

func (l *Loop) reportBlocked(b Blocked) {
	if l.opts.OnBlocked != nil {
		l.opts.OnBlocked(b)
		return
	}
	fmt.Fprintln(os.Stderr, b)
}
