package loop

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Run runs the loop until Stop is called, until ctx ends, or until a callback panics
// (see Options.OnPanic). It returns nil after Stop and the context's cause after ctx
// ended. It does not return because there is nothing to do. It may be called again
// afterwards; an earlier Stop makes it return at once.
//
// Callbacks run on another goroutine while the caller waits, so that Run returns even if
// a callback calls runtime.Goexit. To run callbacks on a particular thread, step the loop
// with RunOnce from that thread.
//
// Run on a loop that is running, from a callback or from another goroutine,
// panics.
func (l *Loop) Run(ctx context.Context) error {
	l.enter("Run")
	defer l.leave()
	if ctx.Err() != nil {
		l.stop.Store(false)
		return context.Cause(ctx)
	}
	ended := new(atomic.Bool)
	l.ended = ended
	if ctx.Done() != nil {
		detach := l.k.AfterFunc(ctx, func() {
			ended.Store(true)
			l.attend()
		})
		defer detach()
	}
	for l.continues() && contain(l.serve) {
	}
	stopped := l.stop.Swap(false) // for this Run, whatever ended it
	switch {
	case l.failure != nil:
		return l.failure
	case stopped:
		return nil
	}
	return context.Cause(ctx)
}

// RunOnce runs one turn: what is due, ready and posted. If there is nothing, it waits at
// most timeout (without limit if negative) for something, and runs that. It returns the
// number of callbacks that ran. Stop wakes RunOnce, and also ends the next Run.
//
// A callback that calls runtime.Goexit under RunOnce ends the calling goroutine, after
// OnPanic was called.
func (l *Loop) RunOnce(timeout time.Duration) (int, error) {
	l.enter("RunOnce")
	defer l.leave()
	before := l.callbacks()
	l.step(timeout)
	if timeout != 0 && l.failure == nil && l.callbacks() == before {
		l.step(0) // the timer or the post that ended the wait
	}
	return int(l.callbacks() - before), l.failure
}

// step runs a turn that polls the kernel in any case. A panic that OnPanic accepted ends
// it early; the next turn runs the rest.
func (l *Loop) step(timeout time.Duration) {
	l.sincePoll = pollEvery
	l.stepped = l.callbacks()
	l.guard(func() { l.turn(timeout) })
}

// Stop makes Run return after the current turn. If the loop is not running, the next Run
// returns at once. Any goroutine may call it, any number of times.
func (l *Loop) Stop() {
	l.stop.Store(true)
	l.attend()
}

// contain runs fn on another goroutine and reports whether runtime.Goexit ended it.
func contain(fn func()) (exited bool) {
	ended := make(chan bool)
	go func() {
		exited := true
		defer func() { ended <- exited }()
		fn()
		exited = false
	}()
	return <-ended
}

// serve runs turns until the loop is to end. Only Goexit ends it early.
func (l *Loop) serve() {
	defer l.owner.Store(l.owner.Load()) // Run's goroutine: the runtime may give the identity of this one to a new one before leave
	l.own()
	l.watchdog = startWatchdog(l)
	defer l.watchdog.end()
	l.inRun = true
	defer func() { l.inRun = false }()
	for l.continues() {
		l.guard(l.runTurns)
	}
}

func (l *Loop) runTurns() {
	for l.continues() {
		l.turn(-1)
	}
}

func (l *Loop) continues() bool { return !l.mustReturn() && l.failure == nil }

// mustReturn reports whether Run is to return. A loop that is stepped has no Run to return
// from.
func (l *Loop) mustReturn() bool {
	return l.ended != nil && (l.stop.Load() || l.ended.Load())
}

// guard calls fn and handles a panic or a Goexit in it: failure is set, unless OnPanic accepts
// the panic. It reports whether fn returned. Callers keep their progress in the loop, so that
// the next call continues after the callback that panicked: one deferred call guards any
// number of callbacks.
func (l *Loop) guard(fn func()) (returned bool) {
	defer func() {
		if !returned {
			l.serving = nil
			l.caught(recover())
		}
	}()
	fn()
	return true
}

// caught handles a panic in a callback, or a Goexit if value is nil.
func (l *Loop) caught(value any) {
	if value == nil {
		value = ErrGoexit
	}
	l.wheel.End() // a timer may have panicked
	l.pollFirst = l.pollDue()
	p := &PanicError{Value: value, Stack: debug.Stack()}
	l.stats.Panics++
	l.failure = p // remains if there is no handler, or if the handler exits the goroutine
	if l.opts.OnPanic != nil {
		l.failure = l.callOnPanic(p)
	}
}

// callOnPanic calls the handler. If the handler panics, both panics end the loop.
func (l *Loop) callOnPanic(p *PanicError) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.Join(p, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return l.opts.OnPanic(p)
}

// turn runs one turn, as drawn in the package comment. It waits at most timeout.
func (l *Loop) turn(timeout time.Duration) {
	l.stats.Turns++
	observed := l.opts.OnTurn != nil || l.phases != nil // otherwise the comparisons below are the only cost
	if observed {
		observed = l.observation.begin(l)
	}
	if l.pollFirst {
		l.pollFirst = false
		l.dispatch(&l.events)
		l.poll(0)
	}
	if l.hasLeftovers() {
		l.dispatch(&l.events)
		l.steps.run(l)
		if observed {
			l.observation.phase(l, &l.observation.Events)
		}
	}
	if l.inbox.waiting.Load() {
		l.takeInbox()
		if l.mustReturn() {
			l.inbox.waiting.Store(true) // that of Stop is gone; a wait must see it
		}
	}
	if observed {
		l.observation.phase(l, &l.observation.Inbox)
	}
	if l.timersDue {
		l.fireTimers()
	}
	if observed {
		l.observation.phase(l, &l.observation.Timers)
	}
	l.runReady()
	if observed {
		l.observation.phase(l, &l.observation.Ready)
	}
	if l.pollDue() || l.ready() == 0 {
		l.poll(timeout)
		if observed {
			l.observation.phase(l, &l.observation.Wait)
		}
		l.dispatch(&l.events)
		if observed {
			l.observation.phase(l, &l.observation.Events)
		}
	}
	if observed {
		l.observation.end(l)
	}
}

// hasLeftovers reports whether a panic or a Poll left events behind.
func (l *Loop) hasLeftovers() bool {
	return l.events.at < l.events.end || l.steps.waiting() > 0
}

// poll polls the kernel. It waits if there is nothing to do.
func (l *Loop) poll(timeout time.Duration) {
	ran, last := l.beginPoll(), l.now
	if timeout != 0 && l.inRun && l.mayWait() && l.waitsInGo() {
		l.waitInGo()
		return
	}
	if timeout = l.waitTime(timeout); timeout == 0 {
		l.pulse.Add(2)
	} else {
		l.trimLanes()
		l.pulse.Add(1)
		if l.inbox.waiting.Load() || l.mustReturn() {
			timeout = 0
		}
		if p := l.phases; p != nil {
			p.BeginWait(l.k.Mono())
		}
	}
	n, err := l.k.Wait(l.events.all, timeout)
	waited := l.pulse.Load()&1 == 0
	if waited {
		l.pulse.Add(1)
		if p := l.phases; p != nil {
			p.EndWait(l.k.Mono())
		}
		l.watchdog.look()
	}
	l.polled(n, err)
	if waited {
		l.pollSooner()
	} else {
		l.adaptPolling(ran, l.now-last)
	}
}

// polled takes the result of the kernel's Wait.
func (l *Loop) polled(n int, err error) {
	if err != nil {
		l.failure = opError("wait", noFD, err)
		return
	}
	l.goWait.unpolled = n > 0 // some may be left
	l.events.at, l.events.end = 0, n
	l.readClock()
}

// mayWait reports whether there is nothing to do.
func (l *Loop) mayWait() bool { return !l.timersDue && l.ready() == 0 }

// waitTime returns how long the loop may wait now, at most timeout.
func (l *Loop) waitTime(timeout time.Duration) time.Duration {
	if timeout == 0 || !l.mayWait() {
		return 0
	}
	if l.ended == nil && l.callbacks() != l.stepped {
		return 0 // a step that has run something does not wait for more
	}
	next, ok := l.wheel.Next()
	if !ok {
		return timeout
	}
	until := max(time.Duration(next)-l.k.Mono(), 0)
	if timeout < 0 {
		return until
	}
	return min(timeout, until)
}

// events are the events of a wait. Those before at have been dispatched.
type events struct {
	all     []kernel.Event
	at, end int
}

// dispatch runs the callbacks of the rest of e. An event is done before its callback runs,
// which may panic. Its row is looked up for each callback, because any callback may cancel
// any watch.
func (l *Loop) dispatch(e *events) {
	for e.at < e.end {
		ev := &e.all[e.at]
		w := l.watches.at(ev.Token)
		if w == nil {
			e.at++
			continue
		}
		ready := ev.Ready & (Ready(w.interest) | HangUp | Failed | Urgent)
		if ready&(Readable|Writable) == 0 {
			e.at++
			continue
		}
		l.stats.Events++
		h, ok := w.watcher.(*halves)
		switch {
		case !ok:
			e.at++
			w.watcher.Ready(ready)
		case ready&Readable != 0:
			ev.Ready &^= Readable // the writer follows
			h.reader()
		default:
			e.at++
			h.writer()
		}
	}
}
