package loop

import (
	"errors"
	"slices"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop/internal/wheel"
)

// Close releases the loop. It fails while the loop runs, and with ErrClosed the second
// time. Watched descriptors stay open. Timers that have not fired are
// dropped. Callbacks and jobs that were accepted and will never run fail Close with an error
// that is ErrLost, and names them. Tasks of package spindle that still wait are ended, and
// reported if they had to be forced. Close does not wait for a job that is running.
//
// Afterwards Post and Close return ErrClosed, Stop and Cancel do nothing, and everything
// else panics.
func (l *Loop) Close() (err error) {
	if !l.tryEnter() {
		if l.isClosed() {
			return ErrClosed
		}
		return errRunning
	}
	defer func() { err = l.endClose() }() // even if a callback calls runtime.Goexit
	l.closing = true
	l.beginClose()
	return nil
}

// beginClose ends what uses the loop, and closes the inbox. A callback that calls
// runtime.Goexit ends the goroutine, but not before the others were called.
func (l *Loop) beginClose() {
	exited := true
	defer func() {
		if exited {
			l.closeError(l.failure)
			l.beginClose()
		}
	}()
	l.closeValues()
	l.inbox.close()
	l.closeValues() // for what was posted meanwhile
	exited = false
}

// endClose releases what the loop has, and returns the errors of Close.
func (l *Loop) endClose() error {
	if lost := l.lost(); lost != nil {
		l.closeError(lost)
	}
	l.state.Store(closed)
	l.owner.Store(closedOwner)
	l.unregister()
	l.lanes = [priorities]lane{}
	l.watches.drop()
	l.goWait.end()
	l.wheel = wheel.New(0)
	if err := l.k.Close(); err != nil {
		l.closeError(opError("close", noFD, err))
	}
	close(l.done)
	return errors.Join(l.closeErrs...)
}

// closeError adds err to the errors that Close returns.
func (l *Loop) closeError(err error) {
	if err != nil {
		l.closeErrs = append(l.closeErrs, err)
	}
	l.failure = nil
}

// value is a value that another package keeps with the loop; see internal/perloop. The key
// identifies it.
type value struct {
	key   *byte
	value any
}

// closeValues ends the values, the newest first, also those that are added meanwhile.
func (l *Loop) closeValues() {
	l.drainAtClose()
	for len(l.values) > 0 {
		last := l.values[len(l.values)-1]
		l.guard(func() {
			switch v := last.value.(type) {
			case interface{ LoopClosing() }:
				v.LoopClosing()
			case interface{ LoopClosing() error }:
				l.closeError(v.LoopClosing())
			}
		})
		l.closeError(l.failure)
		l.values = slices.DeleteFunc(l.values, func(v value) bool { return v.key == last.key })
		l.drainAtClose()
	}
}

// atCloseEntry returns fn as an entry of a lane for which Close does what at says. A function
// is one pointer, so the interface needs no memory of its own.
func atCloseEntry(at atclose.Kind, fn func()) coroutine {
	switch at {
	case atclose.Drop:
		return dropAtClose(fn)
	case atclose.Run:
		return runAtClose(fn)
	}
	panic("loop: unknown atclose.Kind")
}

// Callbacks that Close drops, and those that it runs.
type (
	dropAtClose func()
	runAtClose  func()
)

// Resume calls the callback.
func (fn dropAtClose) Resume() { fn() }

// Resume calls the callback.
func (fn runAtClose) Resume() { fn() }

// drainAtClose runs the callbacks of kind atclose.Run that have not run, and those that are
// added meanwhile. A panic in one of them is an error of Close.
func (l *Loop) drainAtClose() {
	l.only("DrainAtClose")
	for !l.guard(l.runAtClose) {
		l.closeError(l.failure)
	}
}

func (l *Loop) runAtClose() {
	if l.inbox.waiting.Load() {
		l.takeInbox()
	}
	q := &l.lanes[Normal]
	for l.atCloseNext = max(l.atCloseNext, q.head); l.atCloseNext != q.tail; {
		at := q.at(l.atCloseNext)
		l.atCloseNext++ // before the call: it may panic
		if fn, ok := at.co.(runAtClose); ok {
			at.co = nil
			q.cancelled++
			fn()
		}
	}
}
