package loop

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// Blocked is the watchdog's report of a turn that does not end.
type Blocked struct {
	For   time.Duration // how long it has lasted, at least
	Stack []byte        // of the callback or task that is running, this very moment
}

func (b Blocked) String() string {
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
// one and one and a half patiences. Each turn is reported once.
func (d *watchdog) watch(l *Loop, patience time.Duration) {
	period := max(patience/2, 1)
	tick := time.NewTimer(period)
	defer tick.Stop()
	last, same, reported := l.pulse.Load(), 0, false
	for {
		select {
		case <-d.quit:
			return
		case <-tick.C:
		}
		switch pulse := l.pulse.Load(); {
		case pulse&1 == 0:
			if !d.sleep(l) {
				return
			}
			last, same, reported = l.pulse.Load(), 0, false
		case pulse != last:
			last, same, reported = pulse, 0, false
		default:
			if same++; same >= 2 && !reported {
				reported = true
				l.reportBlocked(Blocked{For: time.Duration(same) * period, Stack: stackOf(goid.NumberOf(l.owner.Load()))})
			}
		}
		tick.Reset(period)
	}
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

// stackOf finds one goroutine's stack in a dump of all: Go has no other way to
// see a goroutine from outside.
func stackOf(number uint64) []byte {
	const most = 64 << 20
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= most {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 4*len(buf))
	}
	head := []byte("goroutine " + strconv.FormatUint(number, 10) + " ")
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if bytes.HasPrefix(stack, head) {
			return bytes.Clone(stack)
		}
	}
	return nil
}
