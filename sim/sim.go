// Package sim runs programs in a simulated world. So far the world has one host
// and no network: its clock is virtual and jumps to the next timer when every
// task waits, so that an hour of time-outs takes no time.
//
//	func TestRetry(t *testing.T) {
//		sim.Test(t, func(ctx context.Context) error {
//			return spindle.Sleep(ctx, time.Hour) // at once
//		})
//	}
//
// Nothing in a simulated program waits for anything real. If every task waits
// and no timer is set, nothing can ever wake anybody: the program fails with
// ErrDeadlock and a picture of its tasks, each with what it waits for.
//
// Two tools put tasks where a test wants them, without sleeping: WaitAllBlocked
// waits until everybody else waits, and a Sequencer has steps of several tasks
// happen in a given order.
package sim

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// ErrDeadlock says that every task waits and nothing can wake any of them.
var ErrDeadlock = errors.New("sim: deadlock: every task waits, and nothing can wake one")

// Test runs a program under virtual time and fails the test with its error. A
// panic in a task fails the test too, with the task's stack. A task may call
// tb.FailNow or tb.SkipNow, or what calls them: the other tasks are cancelled,
// the run ends in order, and then the test does.
func Test(tb testing.TB, program func(context.Context) error) {
	tb.Helper()
	fault, err := try(tb.Context(), program)
	switch exited := fault != nil && fault.Value == loop.ErrGoexit; {
	case exited && tb.Failed():
		tb.FailNow()
	case exited && tb.Skipped():
		tb.SkipNow()
	case fault != nil:
		tb.Fatalf("%v\n\n%s", fault, fault.Stack)
	case err != nil:
		tb.Fatal(err)
	}
}

// try is Run that returns the panic of a task.
func try(ctx context.Context, program func(context.Context) error) (fault *spindle.PanicError, err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		var ok bool
		if fault, ok = v.(*spindle.PanicError); !ok {
			panic(v)
		}
	}()
	return nil, Run(ctx, program)
}

// Run runs a program under virtual time.
func Run(ctx context.Context, program func(context.Context) error) error {
	return spindle.RunWith(ctx, spindle.Options{Loop: loop.Options{Kernel: NewKernel(), Watchdog: -1}}, program)
}

// NewKernel makes the kernel of a simulated host, for the packages of this
// module.
func NewKernel() *kernel.Kernel {
	h := &host{rand: rand.NewPCG(1, 1)}
	return &kernel.Kernel{Poller: h, Sockets: noNetwork{}, Clock: h, Rand: h.rand, Workers: h, Resolver: h}
}

// begin is when simulated time begins.
var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// host is a simulated machine.
type host struct {
	now     time.Duration
	rand    *rand.PCG
	blocked spindle.Lot // who waits in WaitAllBlocked; loop goroutine only

	mu    sync.Mutex
	woken bool
	work  []func() // offloaded, run one by one when every task waits
}

func (h *host) Name() string { return "sim" }
func (h *host) Add(int, kernel.Token, kernel.Interest, kernel.Mode) error {
	return errNoNetwork
}
func (h *host) Modify(int, kernel.Token, kernel.Interest, kernel.Mode) error {
	return errNoNetwork
}
func (h *host) Delete(int) error { return errNoNetwork }

// Wait never blocks: it does the next thing that could happen. Tasks that want
// to see everybody wait come first, because after any other thing not everybody
// does.
func (h *host) Wait(_ []kernel.Event, timeout time.Duration) (int, error) {
	if timeout == 0 || h.wasWoken() || h.blocked.Wake(math.MaxInt) > 0 {
		return 0, nil
	}
	if work := h.nextWork(); work != nil {
		work()
		return 0, nil
	}
	if timeout < 0 {
		return 0, ErrDeadlock
	}
	h.now += timeout
	return 0, nil
}

func (h *host) wasWoken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	woken := h.woken
	h.woken = false
	return woken
}

func (h *host) nextWork() (work func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.work) > 0 {
		work = h.work[0]
		h.work = h.work[1:]
	}
	return work
}

func (h *host) Wake() {
	h.mu.Lock()
	h.woken = true
	h.mu.Unlock()
}

func (h *host) Close() error        { return nil }
func (h *host) Mono() time.Duration { return h.now }
func (h *host) Wall() time.Time     { return begin.Add(h.now) }

func (h *host) Start(work func()) {
	h.mu.Lock()
	h.work = append(h.work, work)
	h.mu.Unlock()
}

func (h *host) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errNoNetwork
}
