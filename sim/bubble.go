package sim

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/spindleloop/spindle/internal/simnet"
)

// inBubble runs body, in a bubble of testing/synctest if there can be one: then
// timers of the standard library and of other libraries follow the world's time,
// and crypto/rand draws from the seed. Tests alone can have one; in a benchmark,
// or inside a bubble already, b is nil.
//
// Body may end by runtime.Goexit; what a bubble ends with otherwise is an error.
func inBubble(tb testing.TB, seed uint64, body func(ctx context.Context, b *bubble)) error {
	t, ok := tb.(*testing.T)
	if !ok || within(stackOf(false)) != "" {
		body(tb.Context(), nil)
		return nil
	}
	t.Context().Done() // a channel that is made when it is asked for: not inside
	var b *bubble
	outside := watchStall(nil)
	defer outside.end()
	err := burst(t, func(t *testing.T) {
		seeded := seedCrypto(t, seed)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b = newBubble()
			b.seeded, b.outside = seeded, outside
			if !seeded { // others run in parallel, and the number of goroutines says little
				b.looks = parallelLooks
			}
			defer b.close()
			body(t.Context(), b)
		}()
		<-done
		if b.stray == nil {
			b.stray = b.look()
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

// burst is synctest.Test, and returns what it would panic with when goroutines
// are left inside.
func burst(t *testing.T, fn func(*testing.T)) (err error) {
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

// seedCrypto seeds crypto/rand, which is the whole process's, and so is left alone
// while tests run in parallel. It tells whether it did.
func seedCrypto(t *testing.T, seed uint64) (seeded bool) {
	defer func() { _ = recover() }()
	cryptotest.SetGlobalRandom(t, seed)
	return true
}

// bubble is the clock of a bubble, for the world that is driven in it. For the
// goroutine that drives, but for Poke.
type bubble struct {
	name   string // as stacks tell it
	timer  *time.Timer
	poked  chan struct{}
	seen   int   // how many goroutines there were at the last look
	looks  int   // that are left
	stray  error // what they have found
	seeded bool  // crypto/rand is
	begun  time.Time

	world   atomic.Pointer[simnet.World] // that is driven in it; nil before there is one
	outside *stall
	alarm   *time.Timer // set while a program may run; see overslept
	blocked atomic.Pointer[BlockedError]
}

// mostLooks is how often a world looks for goroutines that are not its own: it
// takes long, and who starts some starts them soon.
const mostLooks = 64

// parallelLooks is mostLooks in a parallel test, where every look holds up others.
const parallelLooks = 4

func newBubble() *bubble {
	b := &bubble{name: within(stackOf(false)), timer: time.NewTimer(time.Hour), poked: make(chan struct{}, 1), looks: mostLooks}
	b.timer.Stop()
	b.begun = time.Now()
	b.alarm = time.AfterFunc(1, b.overslept)
	return b
}

func (b *bubble) close() {
	b.timer.Stop()
	b.alarm.Stop()
}

// overslept is called when the bubble's time moves although the world lets no time
// pass: the goroutine that runs the program, and with it every other one in the
// bubble, is blocked. The alarm is the first timer that is due, a nanosecond from
// the moment at which the program began to run, so that the goroutine is still
// where it blocks.
func (b *bubble) overslept() {
	world := b.world.Load()
	if world == nil {
		return // setup: the world will begin later, and that is all
	}
	err := world.Blocked()
	if err == nil || !b.blocked.CompareAndSwap(nil, err) {
		return
	}
	world.Report(err)
}

// surround has a world share the bubble's time. There may be no bubble.
func (b *bubble) surround(w *simnet.World) {
	if b != nil {
		w.SetBubble(b)
		b.world.Store(w)
		b.outside.world.Store(w)
	}
}

// Seeded tells whether crypto/rand draws from the seed.
func (b *bubble) Seeded() bool { return b.seeded }

// Pass lets time pass in the bubble. It does so once everything in it waits, and
// returns the bubble's time when everything waits again.
func (b *bubble) Pass(d time.Duration) time.Duration {
	b.alarm.Stop()
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
	b.alarm.Reset(1)
	return time.Since(b.begun)
}

// Poke ends Pass.
func (b *bubble) Poke() {
	select {
	case b.poked <- struct{}{}:
	default:
	}
}

// Strays looks for goroutines that are not ours, whenever there are more or fewer
// than before.
func (b *bubble) Strays() error {
	n := runtime.NumGoroutine()
	if n == b.seen || b.looks == 0 || b.stray != nil {
		return nil
	}
	b.seen = n
	b.looks--
	b.stray = b.look()
	return b.stray
}

func (b *bubble) look() error {
	synctest.Wait() // until each is where it waits
	for stack := range bytes.SplitSeq(stackOf(true), []byte("\n\n")) {
		if within(stack) == b.name && !ours(stack) {
			return &simnet.StrayError{Stack: bytes.Clone(stack)}
		}
	}
	return nil
}

// within is the name of the bubble that a goroutine is in, "" for none. Its stack
// says so in the first line: "goroutine 9 [running, synctest bubble 8]:".
func within(stack []byte) string {
	head, _, _ := bytes.Cut(stack, []byte("]:"))
	_, name, _ := bytes.Cut(head, []byte("synctest bubble "))
	name, _, _ = bytes.Cut(name, []byte(","))
	return string(name)
}

// ours tells whether a goroutine has its place in a simulated run: the bubble's
// own, coroutines, what the packages of this module start, and what a timer or a
// context calls, which comes and goes while nobody runs.
func ours(stack []byte) bool {
	_, by, ok := bytes.Cut(stack, []byte("\ncreated by "))
	if !ok || bytes.Contains(stack, []byte(" [synctest.Run")) { // the second has started the bubble
		return true
	}
	for _, ok := range starters {
		if bytes.HasPrefix(by, ok) {
			return true
		}
	}
	return false
}

var starters = [][]byte{
	[]byte("iter.Pull"),
	[]byte("testing."),
	[]byte("internal/synctest."), []byte("testing/synctest."),
	[]byte("time.goFunc"),
	[]byte("context.(*afterFuncCtx)"),
	[]byte("context.(*cancelCtx).propagateCancel"), // between a scope and what WithValue has wrapped it in
	[]byte("github.com/spindleloop/spindle."),
	[]byte("github.com/spindleloop/spindle/loop."),
	[]byte("github.com/spindleloop/spindle/internal/simnet."),
	[]byte("github.com/spindleloop/spindle/sim."),
}

// stackOf is the stack of the calling goroutine, or of all.
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
