package loop

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// Run runs the loop until Stop, which makes it return nil, until ctx ends, which
// makes it return the context's cause, or until a callback panics with nobody to
// take it (see Options.OnPanic). It does not end for want of work. It may be
// called again afterwards; a Stop from before makes it return at once.
//
// Callbacks run on a goroutine of Run's own, while the caller waits: so Run
// returns even if one of them calls runtime.Goexit. Who needs them on a thread of
// his choice steps the loop by RunOnce.
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
			l.inbox.waiting.Store(true)
			l.interrupt()
		})
		defer detach()
	}
	for l.goesOn() && contain(l.serve) {
	}
	stopped := l.stop.Swap(false) // it was for this Run, whatever ended it
	switch {
	case l.failure != nil:
		return l.failure
	case stopped:
		return nil
	}
	return context.Cause(ctx)
}

// RunOnce runs what there is to run, once: what is due, ready and posted. If
// there is nothing, it waits at most timeout (without limit if negative) for
// something, and runs that. It returns how many callbacks ran. A Stop wakes it,
// and is otherwise for Run.
//
// A callback that calls runtime.Goexit under RunOnce ends the calling
// goroutine, after OnPanic was told.
func (l *Loop) RunOnce(timeout time.Duration) (int, error) {
	l.enter("RunOnce")
	defer l.leave()
	before := l.callbacks()
	l.step(0)
	if timeout != 0 && l.failure == nil && l.callbacks() == before {
		l.step(timeout)
		if l.failure == nil && l.callbacks() == before {
			l.step(0) // the timer or the Post that ended the wait
		}
	}
	return int(l.callbacks() - before), l.failure
}

// step runs a turn that asks the kernel in any case. A panic that OnPanic took
// ends it early; what is left of it is for the next turn.
func (l *Loop) step(timeout time.Duration) {
	l.sinceAsk = askEvery
	l.stepped = l.callbacks()
	l.guard(func() { l.turn(timeout) })
}

// Stop makes Run return once the turn under way is finished, or the next Run if
// none is. It may be called from any goroutine, any number of times.
func (l *Loop) Stop() {
	l.stop.Store(true)
	l.inbox.waiting.Store(true)
	l.interrupt()
}

// interrupt wakes the loop if it waits in the kernel. Whoever calls it has
// first published what the loop is to see, and the loop looks for that after it
// made the pulse even: one of the two always sees the other.
func (l *Loop) interrupt() {
	if l.pulse.Load()&1 == 0 {
		l.k.Wake()
	}
}

func (l *Loop) enter(op string) {
	if l.state.CompareAndSwap(idle, running) {
		l.own()
		l.failure = nil
		return
	}
	switch {
	case l.state.Load() == closed:
		panic("loop: " + op + " on a closed loop")
	case l.owner.Load() == goid.Current():
		panic("loop: " + op + " called from a callback of the same loop")
	}
	panic("loop: " + op + " on a loop that another goroutine runs; reach it by Post")
}

// own makes the calling goroutine the owner.
func (l *Loop) own() {
	g := goid.Current()
	l.entered = goid.LockOf(g)
	l.owner.Store(g)
	if fn := l.onEntry; fn != nil {
		l.onEntry = nil
		fn()
	}
}

func (l *Loop) leave() {
	l.ended = nil
	l.owner.Store(0)
	l.state.Store(idle)
}

// contain runs fn on a goroutine of its own and tells whether a runtime.Goexit
// ended it.
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

// serve runs turns until the loop is to end. It is left early only by Goexit.
func (l *Loop) serve() {
	l.own()
	l.dog = startWatchdog(l)
	defer l.dog.end()
	for l.goesOn() {
		l.guard(l.turns)
	}
}

func (l *Loop) turns() {
	for l.goesOn() {
		l.turn(-1)
	}
}

func (l *Loop) goesOn() bool { return !l.halted() && l.failure == nil }

// halted tells whether someone wants Run to return. A loop that is stepped has
// no Run to return from.
func (l *Loop) halted() bool {
	return l.ended != nil && (l.stop.Load() || l.ended.Load())
}

// guard runs phases and catches what callbacks throw; it reports whether fn
// returned. Progress is kept in the loop, so that the next turn goes on behind
// the callback that panicked: one deferred call guards any number of callbacks.
func (l *Loop) guard(fn func()) (returned bool) {
	defer func() {
		if !returned {
			l.caught(recover())
		}
	}()
	fn()
	return true
}

// caught settles a panic, or a Goexit if value is nil.
func (l *Loop) caught(value any) {
	if value == nil {
		value = ErrGoexit
	}
	l.wheel.End() // a timer may have thrown
	l.serving = nil
	l.askFirst = l.sinceAsk >= askEvery
	p := &PanicError{Value: value, Stack: debug.Stack()}
	l.stats.Panics++
	l.failure = p // stands if there is no handler, or if it exits the goroutine
	if l.opts.OnPanic != nil {
		l.failure = l.judge(p)
	}
}

// judge asks the handler; a handler that panics itself ends the loop with both.
func (l *Loop) judge(p *PanicError) (verdict error) {
	defer func() {
		if v := recover(); v != nil {
			verdict = errors.Join(p, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return l.opts.OnPanic(p)
}

// turn is one turn; the package comment draws it. It waits at most timeout.
func (l *Loop) turn(timeout time.Duration) {
	l.stats.Turns++
	observed := l.opts.Observer != nil // the comparisons below are all it costs without one
	if observed {
		l.obs.begin(l)
	}
	if l.askFirst {
		l.askFirst = false
		l.dispatch()
		l.ask(0)
	}
	if l.leftOver() {
		l.dispatch()
		l.steps.run(l)
		if observed {
			l.obs.phase(l, &l.obs.Events)
		}
	}
	if l.inbox.waiting.Load() {
		l.takeInbox()
	}
	if observed {
		l.obs.phase(l, &l.obs.Inbox)
	}
	if l.due {
		l.fireTimers()
	}
	if observed {
		l.obs.phase(l, &l.obs.Timers)
	}
	l.runReady()
	if observed {
		l.obs.phase(l, &l.obs.Ready)
	}
	if l.sinceAsk >= askEvery || l.ready() == 0 {
		l.ask(timeout)
		if observed {
			l.obs.phase(l, &l.obs.Wait)
		}
		l.dispatch()
		if observed {
			l.obs.phase(l, &l.obs.Events)
		}
	}
	if observed {
		l.obs.end(l)
	}
}

// leftOver tells of events that a panic or a Poll has left behind.
func (l *Loop) leftOver() bool {
	return l.eventAt < l.eventEnd || l.steps.waiting() > 0
}

// ask asks the kernel, waiting for it if there is nothing to do.
func (l *Loop) ask(timeout time.Duration) {
	l.sinceAsk = 0
	if timeout = l.patience(timeout); timeout == 0 {
		l.pulse.Add(2)
	} else {
		for i := range l.lanes {
			l.lanes[i].trim()
		}
		l.pulse.Add(1)
		if l.inbox.waiting.Load() || l.halted() {
			timeout = 0
		}
	}
	n, err := l.k.Wait(l.events, timeout)
	if l.pulse.Load()&1 == 0 {
		l.pulse.Add(1)
		l.dog.look()
	}
	if err != nil {
		l.failure = &OpError{Op: "wait", FD: noFD, Err: err}
		return
	}
	l.eventAt, l.eventEnd = 0, n
	l.readClock()
}

// patience is how long the loop may wait now.
func (l *Loop) patience(timeout time.Duration) time.Duration {
	if timeout == 0 || l.due || l.ready() > 0 {
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
