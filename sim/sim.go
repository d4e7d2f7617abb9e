// Package sim runs programs in a simulated world: hosts and the network between
// them, under one virtual clock. A seed determines everything that happens.
//
//	w := sim.NewWorld(seed)
//	server, client := w.Host("server"), w.Host("client")
//	server.Serve(serve)   // func(ctx context.Context) error
//	client.Go(ask)        // connects to "server:80"
//	w.After(time.Second, func() { w.Partition(server, client) })
//	err := w.Run()        // until every client has returned
//
// Programs run unchanged: their loops, tasks, servers and timeouts are the real
// ones, on a simulated kernel. Sockets carry bytes with delays, windows and
// resets. Names resolve to hosts. Offloaded work runs when nothing else can run.
// Random numbers come from the seed. One program runs at a time. When all of them
// wait, virtual time jumps to the next timer or arrival: an hour of timeouts takes
// no real time, and the same seed gives the same run.
//
// A test that needs no network uses a world of one host:
//
//	func TestRetry(t *testing.T) {
//		sim.Test(t, func(ctx context.Context) error {
//			return spindle.Sleep(ctx, time.Hour) // at once
//		})
//	}
//
// If every task of every host waits and nothing is in flight, no task can ever
// wake up. The run then fails with ErrDeadlock and the tree of tasks, each with
// the operation it waits for.
//
// A heartbeat or another periodic timer prevents that: there is always a next event.
// If a program that the run waits for then never returns, for example because it
// missed a wake-up, virtual time passes for ever, and Run, Explore and Search do not
// return. Give such a world a limit: World.Eventually with a condition that the
// programs must meet, or spindle.FailAfter in the program.
//
// Two tools bring tasks to a certain point without sleeping: WaitAllBlocked waits
// until every other task waits, and a Sequencer runs steps of several tasks in a
// given order.
//
// # In a test
//
// Test and Explore run in a testing/synctest bubble that shares the world's clock:
// time.Now, context.WithTimeout, timers of libraries and the validity of
// certificates follow virtual time. crypto/rand follows the seed, which makes TLS
// deterministic. Outside of tests, and in parallel tests, TLS is refused. Outside
// of tests the standard library's clock is the machine's: use Sleep, FailAfter and
// MoveOnAfter there.
//
// # Stray goroutines
//
// A run is a function of its seed only if nothing else influences it. A goroutine
// started by a program or a library runs at no particular moment. The run fails
// with an error that names it, and shows where the goroutine was started, if the goroutine
// posts to a simulated loop, or if it exists in the bubble while the world waits or
// when the run ends. A goroutine that starts and exits between two waits and touches
// no loop is not noticed. Goroutines that the context package starts to propagate
// cancellation are allowed: they exit before time passes.
//
// State shared with other runs, math/rand and the iteration order of maps do not follow
// the seed. Explore runs some seeds twice to find programs that depend on them. Test and
// Run do so if the environment variable SPINDLE_TWICE is set.
//
// # What is not simulated
//
// Files, child processes and signals fail with errors.ErrUnsupported. A real
// descriptor counts as not open, so a program cannot reach the machine by accident.
// Offloaded work (spindle.Blocking) runs on the loop's goroutine when every task
// waits. It may compute, but must not use connections of the loop.
package sim

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// ErrDeadlock reports that every task waits and nothing can wake any of them.
var ErrDeadlock = simkernel.ErrDeadlock

// Test runs a program in a world of one host and fails the test with its error. A
// panic in a task fails the test too, with the task's stack. A task may call
// tb.FailNow or tb.SkipNow, directly or through tb.Fatal and the like: the other
// tasks are cancelled, the run shuts down, and then the test ends.
//
// Test runs the program in a testing/synctest bubble: context.WithTimeout, time.Now
// and timers of libraries follow the world's time. crypto/rand follows the seed,
// except while tests run in parallel, because crypto/rand belongs to the whole
// process.
//
// If the environment variable SPINDLE_TWICE is set, Test runs a program that has not
// failed a second time, and fails with ErrDiverges and the line to blame if the two
// runs differ: the program uses math/rand, the order of a map, or variables that
// outlive it.
func Test(tb testing.TB, program func(context.Context) error) {
	tb.Helper()
	w := newAlone(nil)
	left, err := testAlone(tb, w, program)
	fault, _ := err.(*spindle.PanicError)
	exited := fault != nil && fault.Value == loop.ErrGoexit
	switch {
	case exited && tb.Failed():
		tb.FailNow()
	case exited && tb.Skipped():
		tb.SkipNow()
	case left != nil:
		tb.Fatal(left)
	case err != nil:
		tb.Fatal(err) // the text of a panic has the stack
	case runsTwice() && !tb.Failed():
		again := newAlone(w)
		left, err = testAlone(tb, again, program)
		if f := (&Failure{World: w}).differs(&Failure{World: again, Err: errors.Join(left, err)}); f != nil {
			tb.Fatal(f.Err)
		}
		if tb.Failed() {
			tb.Fatal("sim: only the second run of the program failed; " + advice)
		}
	}
}

// testAlone runs a program in a world of one host, in a bubble of the test. It returns
// the error that ended the bubble and the program's, which is a *spindle.PanicError for
// a panic or a Goexit.
func testAlone(tb testing.TB, w *World, program func(context.Context) error) (left, err error) {
	err = &spindle.PanicError{Value: loop.ErrGoexit} // unless the run returns
	left = inBubble(tb, 1, func(ctx context.Context, b *bubble) {
		fault, failure := try(func() error { return w.runAlone(ctx, b, program) })
		if err = failure; fault != nil {
			err = fault
		}
	})
	return left, err
}

// try runs fn. It recovers the panic of a task and returns it as fault.
func try(fn func() error) (fault *spindle.PanicError, err error) {
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
	return nil, fn()
}

// Run runs a program in a world of one host. If the environment variable SPINDLE_TWICE
// is set, it runs the program twice and compares the runs, as Test does.
func Run(ctx context.Context, program func(context.Context) error) error {
	w := newAlone(nil)
	fault, err := try(func() error { return w.runAlone(ctx, nil, program) })
	switch {
	case fault == nil && err == nil && runsTwice():
		again := newAlone(w)
		fault, err = try(func() error { return again.runAlone(ctx, nil, program) })
		if fault != nil {
			err = fault
		}
		if f := (&Failure{World: w}).differs(&Failure{World: again, Err: err}); f != nil {
			return f.Err
		}
		return nil
	case fault == nil:
		return err
	case fault.Value == loop.ErrGoexit: // of a task; spindle.Run does the same
		runtime.Goexit()
	}
	fault.Repanic()
	return nil
}

// runsTwice reports whether Test and Run compare two runs. It is not the default:
// programs may share variables with their test, and would then differ or fail.
func runsTwice() bool { return os.Getenv("SPINDLE_TWICE") != "" }

// newAlone makes a world for runAlone. It is compared with an earlier run, unless
// before is nil.
func newAlone(before *World) *World {
	w := NewWorld(1)
	switch {
	case before != nil:
		w.core.Record(before.core.Journal())
	case runsTwice():
		w.core.Record(nil)
	}
	return w
}

// runAlone runs a program in a world of one host.
func (w *World) runAlone(ctx context.Context, b *bubble, program func(context.Context) error) (err error) {
	if b.surround(w.core); b == nil {
		defer watchStall(w.core).end()
	}
	defer func() { err = withReported(w.core, err) }()
	process := w.core.AddHost("sim").NewProcess()
	main := program
	if w.core.Journal() != nil {
		main = func(ctx context.Context) error {
			process.Describe = func() string { return describe(ctx) }
			process.Running = func() string { return running(ctx) }
			return program(ctx)
		}
	}
	return spindle.Options{Loop: optionsOf("", process.Kernel())}.Run(ctx, main)
}

// withReported joins err with the error that was reported to the world during the
// run, unless err already contains it.
func withReported(w *simkernel.World, err error) error {
	reported := w.Reported()
	if reported == nil || errors.Is(err, reported) {
		return err
	}
	return errors.Join(reported, err)
}

// optionsOf returns the options of a loop on a simulated kernel. The watchdog is
// off because it measures real time.
func optionsOf(name string, k *kernel.Kernel) loop.Options {
	return loop.Internal().WithKernel(loop.Options{Name: name, Watchdog: -1}, k)
}
