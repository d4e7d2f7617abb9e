package loop

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/probe"
)

// Blocked is the watchdog's report of a turn that does not end.
type Blocked struct {
	For time.Duration // how long it has lasted, at least

	// Stack is the stack of the callback or task that is running now. Taking it stops the
	// program for some 50 µs, however many goroutines there are. With a version of Go that
	// Spindle does not know, on processors other than amd64 and arm64, and with the build tag
	// spindle_portable, it stops all goroutines for longer the more there are. So it is nil
	// there if the program has more than 4,000, tasks included. OnBlocked can write a
	// goroutine profile (runtime/pprof), which does not stop them.
	Stack []byte

	// Task is the task that is running now, with its scope and the tasks above it in the
	// tree. It is empty for a callback.
	Task string

	// Starved means that the turn does not end because the loop gets too little CPU: its
	// goroutine could run all the time, and got less than half of it. Other goroutines
	// or other processes use the CPUs. The code in Stack is not the cause. Without a
	// stack this is not known, and Starved is false.
	Starved bool
}

func (b Blocked) String() string {
	if b.Stack == nil {
		return b.withoutStack()
	}
	if b.Task != "" {
		b.Stack = append([]byte("task "+b.Task+"\n"), b.Stack...)
	}
	if b.Starved {
		return fmt.Sprintf("loop: starved of CPU for %v so far: its goroutine is ready to run, but other goroutines "+
			"or processes use the CPUs. It is here now:\n%s", b.For, b.Stack)
	}
	return fmt.Sprintf("loop: blocked for %v so far by a callback (or by many in one turn); "+
		"blocking work belongs in Offload, or for a task in spindle.Blocking. It is here now:\n%s", b.For, b.Stack)
}

func (b Blocked) withoutStack() string {
	task := ""
	if b.Task != "" {
		task = "\ntask " + b.Task
	}
	return fmt.Sprintf("loop: blocked for %v so far, by a callback, by many in one turn, or because it gets no CPU; "+
		"blocking work belongs in Offload, or for a task in spindle.Blocking. In this build taking a stack stops all goroutines, "+
		"so none is taken of more than %d; to see where the loop is, write a goroutine profile (runtime/pprof) "+
		"in loop.Options.OnBlocked.%s", b.For, goid.CheapStackLimit, task)
}

// watchdog samples the loop's pulse from another goroutine. The pulse is its only cost
// for the loop. While the loop waits in the kernel the watchdog sleeps as well, so that an
// idle loop causes no wake-ups; the loop calls look when it returns from the kernel.
type watchdog struct {
	asleep atomic.Bool   // the watchdog waits for look
	wake   chan struct{} // look
	quit   chan struct{} // end
}

const defaultWatchdog = 100 * time.Millisecond

// startWatchdog starts the watchdog of a Run. It returns nil if the options disable it.
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

// end stops the watchdog. It does not wait for the goroutine, which may be in a handler
// that waits for the loop.
func (d *watchdog) end() {
	if d != nil {
		close(d.quit)
	}
}

// look wakes the watchdog. The loop calls it after a wait in the kernel.
func (d *watchdog) look() {
	if d != nil && d.asleep.Load() && d.asleep.CompareAndSwap(true, false) {
		d.wake <- struct{}{}
	}
}

// watch samples the pulse twice per patience, so that a report comes after one to one and
// a half times patience. Each turn is reported once; a turn that was reported as starved
// is reported again if it blocks.
func (d *watchdog) watch(l *Loop, patience time.Duration) {
	period := max(patience/2, 1)
	turn, rest := newSample(l), 0 // before the first tick begins: a turn is not reported too early
	tick := time.NewTimer(period)
	defer tick.Stop()
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
			turn.end(l)
			if !d.sleep(l) {
				return
			}
			turn = newSample(l)
		case pulse != turn.pulse:
			turn.end(l)
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
// Where the runtime is not known, taking a stack stops all goroutines, the loop's too, and
// takes longer the more there are. A watchdog without rest would itself block the loop. So it
// uses at most a twentieth of the time.
func restAfter(cost, period time.Duration) int { return int(19 * cost / period) }

// sample is what the watchdog knows about a turn.
type sample struct {
	pulse            uint32
	ticks            int // how long it has lasted
	judgeAt          int // ticks after which to judge it
	began            kernel.Usage
	starved, blocked bool // it was reported as such
}

func newSample(l *Loop) sample {
	return sample{pulse: l.pulse.Load(), judgeAt: 2, began: kernel.ReadUsage()}
}

// due counts a tick of the turn, and reports whether it is time to judge it. A turn that
// was starved is judged again after twice the time, and so on.
func (s *sample) due() bool {
	s.ticks++
	return !s.blocked && s.ticks >= s.judgeAt
}

// judge reports a turn that has lasted too long. It returns how long it took to take the
// stack of the loop's goroutine.
func (s *sample) judge(l *Loop) (cost time.Duration) {
	before, _, _ := kernel.ReadUsage().Since(s.began)
	owner := l.runner()
	if owner == 0 {
		return 0 // the loop has ended
	}
	stack, task := goid.CheapStackOf(owner), l.Internal().RunningTask()
	wall, cpu, ok := kernel.ReadUsage().Since(s.began)
	if l.pulse.Load() != s.pulse || l.runner() != owner {
		return wall - before // the loop has continued, and the stack may be of any moment
	}
	s.judgeAt = 2 * s.ticks
	starved := ok && canRun(stack) && starves(wall, cpu, kernel.Contenders())
	if !starved || !s.starved {
		s.starved, s.blocked = starved, !starved
		l.reportBlocked(Blocked{For: wall, Stack: stack, Task: task, Starved: starved})
	}
	return wall - before
}

// end notes that a turn that was reported has ended.
func (s *sample) end(l *Loop) {
	if s.blocked || s.starved {
		wall, _, _ := kernel.ReadUsage().Since(s.began)
		l.endBlocked(wall)
	}
}

// canRun reports whether a goroutine is not waiting. A dump stops all goroutines, so those
// that were running are runnable in it.
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

// sleep waits until the loop returns from the kernel. It returns false if the watchdog
// was stopped.
func (d *watchdog) sleep(l *Loop) bool {
	d.asleep.Store(true)
	// The loop may have returned, and called look, just before.
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
	l.noteBlocked(probe.BlockedTurn{At: time.Now(), For: b.For, Stack: b.Stack, Task: b.Task, Starved: b.Starved})
	if l.opts.OnBlocked != nil {
		l.opts.OnBlocked(b)
		return
	}
	fmt.Fprintln(os.Stderr, b)
}
