package loop

import (
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// goWait lets the loop wait in Go's scheduler instead of in the kernel, where that is
// quicker.
//
// A loop that sleeps in the kernel gives up its processor, and a goroutine that posts to
// it needs a system call to wake it. Together that takes many times as long as a switch
// between two goroutines. If a goroutine is about to post, because it has just got work
// from this loop, the loop receives from a channel instead: ExpectPost says so.
//
// Meanwhile a kernel.Notifier reports the kernel's events from another goroutine, and a
// timer of Go stands for the next timer of the loop. With a kernel that is no Notifier,
// the loop always waits in the kernel.
//
// A wait that took long was not worth it, because events of descriptors come a little
// later than they do in the kernel. After such a wait the loop waits in the kernel for a
// growing number of waits, and after some of them the notifications end.
type goWait struct {
	signal  chan struct{} // ends the wait; holds one signal; any goroutine
	active  atomic.Bool   // interrupt must send a signal; any goroutine
	arrived atomic.Bool   // the kernel has events, or a timer is due; any goroutine

	// Loop goroutine only.
	expected bool        // ExpectPost was called
	refused  bool        // the kernel cannot notify
	stop     func()      // ends the notifications; nil if there are none
	unpolled bool        // the kernel may have events that came before the notifications
	timer    *time.Timer // reports arrived; nil before the first
	fires    time.Duration
	armed    bool // timer fires at fires, if that is to come
	skip     int  // waits before the loop waits in Go again
	misses   int  // waits in a row that took long

	waits uint64 // so far
}

const (
	goWaitWorth  = 250 * time.Microsecond // a wait that takes longer was not worth it
	goWaitMisses = 12                     // the loop skips at most two to the power of this
	goWaitKeep   = 3                      // with more misses in a row, the notifications end
)

// waitsInGo reports whether the loop's next wait, of Run, is to be one of waitInGo.
func (l *Loop) waitsInGo() bool {
	w := &l.goWait
	if !w.expected {
		return false
	}
	w.expected = false
	if w.skip > 0 {
		w.skip--
		return false
	}
	return w.stop != nil || !w.refused && w.start(l)
}

// start begins the notifications. It reports false if there are none.
func (w *goWait) start(l *Loop) bool {
	n, ok := l.k.Poller.(kernel.Notifier)
	if !ok || l.entered.Locked() {
		w.refused = true
		return false
	}
	if w.signal == nil {
		w.signal = make(chan struct{}, 1)
	}
	stop, err := n.Notify(w.arrive)
	if err != nil {
		w.refused = true
		return false
	}
	w.stop, w.unpolled = stop, true
	return true
}

// arrive ends the wait because there is something besides posts. Any goroutine.
func (w *goWait) arrive() {
	w.arrived.Store(true)
	w.notify()
}

// notify ends the wait. Any goroutine.
func (w *goWait) notify() {
	select {
	case w.signal <- struct{}{}:
	default: // it is ending
	}
}

// mustPoll reports whether the kernel must be polled before the wait.
func (l *Loop) mustPoll() bool {
	w := &l.goWait
	if w.arrived.Load() {
		w.arrived.Store(false)
		w.unpolled = true
	}
	return w.unpolled
}

// waitInGo is poll if a goroutine is about to post. It waits until interrupt is called, the
// kernel has events, or a timer is due.
func (l *Loop) waitInGo() {
	l.trimLanes()
	if l.mustPoll() {
		l.pulse.Add(2)
		n, err := l.k.Wait(l.events.all, 0)
		if l.polled(n, err); n > 0 || err != nil || l.timersDue {
			return
		}
	}
	w := &l.goWait
	began := l.k.Mono()
	next, timers := l.wheel.Next()
	if due := time.Duration(next); timers && (!w.armed || due < w.fires || w.fires <= began) {
		w.arm(due, due-began)
	}
	if l.phases != nil {
		l.phases.BeginWait(began)
	}
	w.forget()
	l.receive()
	l.readClock()
	if l.phases != nil {
		l.phases.EndWait(l.now)
	}
	w.adapt(l.now - began)
}

// arm makes the timer fire at a time. It is not stopped when it is not needed any more:
// most timers of a loop are cancelled, and others are set for about the same time.
func (w *goWait) arm(at, in time.Duration) {
	w.armed, w.fires = true, at
	if w.timer == nil {
		w.timer = time.AfterFunc(in, w.arrive)
		return
	}
	w.timer.Reset(in)
}

// receive waits for a signal, unless there is something to do already.
func (l *Loop) receive() {
	w := &l.goWait
	w.waits++
	w.active.Store(true)
	l.pulse.Add(1)
	if !l.inbox.waiting.Load() && !w.arrived.Load() {
		<-w.signal
	}
	l.pulse.Add(1)
	w.active.Store(false)
	l.watchdog.look()
}

// forget drops a signal of something that the loop is about to look at.
func (w *goWait) forget() {
	select {
	case <-w.signal:
	default:
	}
}

// adapt decides whether the next waits are in Go's scheduler, too.
func (w *goWait) adapt(took time.Duration) {
	if took < goWaitWorth {
		w.misses = 0
		return
	}
	w.misses = min(w.misses+1, goWaitMisses)
	w.skip = 1 << w.misses
	if w.misses > goWaitKeep {
		w.end()
	}
}

// end ends the notifications.
func (w *goWait) end() {
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	if w.armed {
		w.timer.Stop()
		w.armed = false
	}
	w.arrived.Store(false)
}
