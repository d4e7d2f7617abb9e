package loopcore

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
	active  atomic.Bool   // Interrupt must send a signal; any goroutine
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

// ExpectPost says that a goroutine will probably post very soon. The loop's next wait may
// then be in Go's scheduler.
func (c *Loop) ExpectPost() { c.goWait.expected = true }

// WaitsInGo reports whether the loop's next wait is to be one of WaitInGo. Package loop
// calls it before a wait of Run.
func (c *Loop) WaitsInGo() bool {
	w := &c.goWait
	if !w.expected {
		return false
	}
	w.expected = false
	if w.skip > 0 {
		w.skip--
		return false
	}
	return w.stop != nil || !w.refused && w.start(c)
}

// start begins the notifications. It reports false if there are none.
func (w *goWait) start(c *Loop) bool {
	n, ok := c.config.Kernel.Poller.(kernel.Notifier)
	if !ok || c.entered.Locked() {
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

// MustPoll reports whether the kernel must be polled before WaitInGo.
func (c *Loop) MustPoll() bool {
	w := &c.goWait
	if w.arrived.Load() {
		w.arrived.Store(false)
		w.unpolled, c.TimersChanged = true, true // it may have been the timer
	}
	return w.unpolled
}

// Polled says that the kernel was polled, and how many events it returned. Some may be
// left unless there were none.
func (c *Loop) Polled(events int) { c.goWait.unpolled = events > 0 }

// WaitInGo waits until Interrupt is called, the kernel has events, or the time is next,
// unless there is no next. Package loop calls it if MustPoll has reported false, or Polled
// was called since.
func (c *Loop) WaitInGo(next time.Duration, timers bool) {
	w := &c.goWait
	began := c.config.Kernel.Mono()
	c.TimersChanged = false
	if timers && (!w.armed || next < w.fires || w.fires <= began) {
		w.arm(next, next-began)
	}
	w.forget()
	c.receive()
	w.adapt(c.ReadClock() - began)
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
func (c *Loop) receive() {
	w := &c.goWait
	w.waits++
	w.active.Store(true)
	c.Pulse.Add(1)
	if !c.inbox.waiting.Load() && !w.arrived.Load() {
		<-w.signal
	}
	c.Pulse.Add(1)
	w.active.Store(false)
	if c.AfterWait != nil {
		c.AfterWait()
	}
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

// GoWaits returns how often the loop has waited in Go's scheduler.
func (c *Loop) GoWaits() uint64 { return c.goWait.waits }

// EndGoWait ends the notifications when the loop closes.
func (c *Loop) EndGoWait() { c.goWait.end() }
