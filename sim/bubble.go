package sim

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// inBubble runs body in a testing/synctest bubble if possible. In a bubble, timers
// of the standard library and of other libraries follow the world's time, and
// crypto/rand draws from the seed. Only tests can have a bubble: in a benchmark, or
// if the caller already is in one, b is nil.
//
// The body may end by runtime.Goexit. inBubble returns the error that ended the
// bubble, if any: a blocked program, a stray goroutine, or a panic of synctest.
func inBubble(tb testing.TB, seed uint64, body func(ctx context.Context, b *bubble)) error {
	t, ok := tb.(*testing.T)
	if !ok || within(stackOf(false)) != "" {
		body(tb.Context(), nil)
		return nil
	}
	t.Context().Done() // creates the channel, which must not belong to the bubble
	var b *bubble
	outside := watchStall(nil)
	defer outside.end()
	err := runSynctest(t, func(t *testing.T) {
		own := goid.NumberOf(goid.Current())
		seeded := seedCrypto(t, seed)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b = newBubble()
			b.own, b.seeded, b.outside = own, seeded, outside
			if !seeded { // parallel tests start goroutines too, so their number means little
				b.scansLeft = maxParallelScans
			}
			defer b.close()
			body(t.Context(), b)
		}()
		<-done
		if b.stray == nil {
			b.stray = b.scan()
		}
	})
	switch {
	case b == nil:
		return err
	case b.blocked.Load() != nil:
		return b.blocked.Load()
	case b.stray != nil:
		return b.stray
	}
	return err
}

// runSynctest calls synctest.Test. If synctest.Test panics because goroutines are
// left in the bubble, runSynctest returns the panic's error.
func runSynctest(t *testing.T, fn func(*testing.T)) (err error) {
	defer func() {
		if v := recover(); v != nil {
			fault, ok := v.(error)
			if !ok {
				panic(v)
			}
			err = fault
		}
	}()
	synctest.Test(t, fn)
	return nil
}

// seedCrypto seeds crypto/rand. It reports whether it did: while tests run in
// parallel it does not, because crypto/rand belongs to the whole process.
func seedCrypto(t *testing.T, seed uint64) (seeded bool) {
	defer func() { _ = recover() }()
	cryptotest.SetGlobalRandom(t, seed)
	return true
}

// bubble is the clock of a synctest bubble, for the world driven in it. Only the
// driving goroutine uses it, except for Poke and overslept.
type bubble struct {
	name      string // as in stack traces
	own       uint64 // number of the test's goroutine in the bubble
	timer     *time.Timer
	poked     chan struct{}
	seen      int   // number of goroutines at the last scan
	scansLeft int   // scans for stray goroutines that may still be made
	stray     error // the stray goroutine that a scan found
	seeded    bool  // crypto/rand follows the seed
	begun     time.Time

	world   atomic.Pointer[simkernel.World] // the world driven in the bubble; nil before there is one
	outside *stall
	blocked atomic.Pointer[simkernel.BlockedError]

	mu       sync.Mutex
	alarm    *time.Timer   // set while a program may run; see overslept; guarded by mu, as all below
	interval time.Duration // of the alarm; 0 while a program must not run
	resumed  time.Duration // the bubble's time at the last Begin
}

// maxScans limits how often a world scans for stray goroutines. A scan is slow, and
// programs that start goroutines start them early.
const maxScans = 64

// maxParallelScans replaces maxScans in a parallel test, where every scan delays
// the other tests.
const maxParallelScans = 4

func newBubble() *bubble {
	b := &bubble{name: within(stackOf(false)), timer: time.NewTimer(time.Hour), poked: make(chan struct{}, 1), scansLeft: maxScans}
	b.timer.Stop()
	b.begun = time.Now()
	b.alarm, b.interval = time.AfterFunc(1, b.overslept), 1
	return b
}

func (b *bubble) close() {
	b.timer.Stop()
	b.stopAlarm()
}

func (b *bubble) stopAlarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarm.Stop()
	b.interval = 0
}

// overslept is called when the bubble's time moves although the world lets no time
// pass: the goroutine that runs the program is blocked, and so is every other
// goroutine in the bubble. The alarm is due a nanosecond after the program began to
// run, before most other timers, so the goroutine is still where it blocks. If it is not,
// because it slept for no longer than that, the alarm is set again for the next block: each
// time later, because setup may block for long. Slept notices every block in the end.
func (b *bubble) overslept() {
	world := b.world.Load()
	if world == nil {
		return // setup may block: the world only begins later
	}
	err := world.Blocked()
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.interval > 0 {
			b.interval *= 2
			b.alarm.Reset(b.interval)
		}
		return
	}
	if b.blocked.CompareAndSwap(nil, err) {
		world.Report(err)
	}
}

// surround makes w share the bubble's time. If b is nil, it does nothing.
func (b *bubble) surround(w *simkernel.World) {
	if b != nil {
		w.SetBubble(b)
		b.world.Store(w)
		b.outside.world.Store(w)
	}
}

// Seeded reports whether crypto/rand draws from the seed.
func (b *bubble) Seeded() bool { return b.seeded }

// Pass lets d pass in the bubble. Time passes once every goroutine in the bubble
// waits. Pass returns the bubble's time when all of them wait again.
func (b *bubble) Pass(d time.Duration) time.Duration {
	b.stopAlarm()
	b.timer.Reset(d)
	select {
	case <-b.timer.C:
	case <-b.poked:
		b.timer.Stop()
	}
	synctest.Wait()
	return b.Begin()
}

// Begin sets the alarm and returns the bubble's time.
func (b *bubble) Begin() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.interval, b.resumed = 1, time.Since(b.begun)
	b.alarm.Reset(1)
	return b.resumed
}

// Slept returns the time that has passed in the bubble since Begin.
func (b *bubble) Slept() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.begun) - b.resumed
}

// Poke makes Pass return early. Any goroutine may call it.
func (b *bubble) Poke() {
	select {
	case b.poked <- struct{}{}:
	default:
	}
}

// Strays scans for stray goroutines if the number of goroutines has changed since
// the last scan. It returns simkernel.ErrStray if it finds one.
func (b *bubble) Strays() error {
	n := runtime.NumGoroutine()
	if n == b.seen || b.scansLeft == 0 || b.stray != nil {
		return nil
	}
	b.seen = n
	b.scansLeft--
	b.stray = b.scan()
	return b.stray
}

// scan looks for a stray goroutine in the bubble.
func (b *bubble) scan() error {
	synctest.Wait() // goroutines that are about to exit must not count
	for stack := range bytes.SplitSeq(stackOf(true), []byte("\n\n")) {
		if within(stack) == b.name && !b.ours(stack) {
			return &simkernel.StrayError{Stack: bytes.Clone(stack)}
		}
	}
	return nil
}

// within returns the name of the bubble that a goroutine is in, or "" if it is in
// none. The stack's first line has it: "goroutine 9 [running, synctest bubble 8]:".
func within(stack []byte) string {
	head, _, _ := bytes.Cut(stack, []byte("]:"))
	_, name, _ := bytes.Cut(head, []byte("synctest bubble "))
	name, _, _ = bytes.Cut(name, []byte(","))
	return string(name)
}

// ours reports whether a goroutine belongs to a simulated run: it is the bubble's
// own, a coroutine, started by a package of this module, or runs the callback of a
// timer or a context. Such callbacks start and return while no program runs.
func (b *bubble) ours(stack []byte) bool {
	_, by, ok := bytes.Cut(stack, []byte("\ncreated by "))
	if !ok || goid.NumberIn(stack) == b.own || bytes.Contains(stack, []byte(" [synctest.Run")) { // [synctest.Run marks the goroutine that started the bubble
		return true
	}
	for _, starter := range starters {
		if bytes.HasPrefix(by, starter) {
			return true
		}
	}
	return false
}

// starters are the functions that may start goroutines in a simulated run.
var starters = [][]byte{
	[]byte("iter.Pull"),
	[]byte("testing/synctest."),
	[]byte("time.goFunc"),
	[]byte("context.(*afterFuncCtx)"),
	[]byte("context.(*cancelCtx).propagateCancel"), // between a scope and a context that WithValue derived from it
	[]byte("github.com/spindleloop/spindle."),
	[]byte("github.com/spindleloop/spindle/loop."),
	[]byte("github.com/spindleloop/spindle/internal/simkernel."),
	[]byte("github.com/spindleloop/spindle/sim."),
}

// stackOf returns the stack of the calling goroutine, or of all goroutines.
func stackOf(all bool) []byte {
	buf := make([]byte, 1<<10)
	if all {
		buf = make([]byte, 256<<10)
	}
	for {
		n := runtime.Stack(buf, all)
		if n < len(buf) || !all {
			return buf[:n]
		}
		buf = make([]byte, 2*len(buf))
	}
}
