// Package sim runs programs in a simulated world: hosts with a network between
// them, under one virtual clock, all of it drawn from a seed.
//
//	w := sim.NewWorld(seed)
//	server, client := w.Host("server"), w.Host("client")
//	server.Serve(serve)   // func(ctx context.Context) error
//	client.Go(ask)        // connects to "server:80"
//	w.After(time.Second, func() { w.Partition(server, client) })
//	err := w.Run()        // until every client has ended
//
// Programs run unchanged: their loops, tasks, servers and time-outs are the real
// ones, on a kernel that is not. Sockets carry bytes with delays, windows and
// resets; names resolve to hosts; offloaded work is done when nothing else is to
// do; random numbers come from the seed. One program runs at a time, and virtual
// time jumps to the next timer or arrival when every one of them waits, so that an
// hour of time-outs takes no time, and the same seed gives the same run.
//
// For a test that needs no network there is the world of one host:
//
//	func TestRetry(t *testing.T) {
//		sim.Test(t, func(ctx context.Context) error {
//			return spindle.Sleep(ctx, time.Hour) // at once
//		})
//	}
//
// If every task of every host waits and nothing is on its way, nothing can ever
// wake anybody: the run fails with ErrDeadlock and a picture of the tasks, each
// with what it waits for.
//
// Two tools put tasks where a test wants them, without sleeping: WaitAllBlocked
// waits until everybody else waits, and a Sequencer has steps of several tasks
// happen in a given order.
//
// # In a test
//
// Test and Explore run in a bubble of testing/synctest whose clock is the world's:
// time.Now, context.WithTimeout and timers of libraries follow virtual time. So do
// certificates; and crypto/rand follows the seed, so that TLS can be used. Outside
// of tests, and in parallel ones, TLS is refused, and the standard library's clock
// is the machine's: use Sleep, FailAfter and MoveOnAfter there.
//
// # Who may have a hand in it
//
// A run is a function of its seed as long as nothing else has a hand in it. A
// goroutine that a program, or a library, has started comes at no particular
// moment: if it hands something to a simulated loop, or, in a bubble, is there
// while the world waits or in the end, the run fails with a *StrayError that tells
// where it was started. (One that has come and gone between two waits, and has
// touched nothing, is not noticed. What the context package starts to pass on the
// end of a context is let be: it ends before time passes.) State that a program
// shares with other runs, and the order of a map, are choices that no seed makes;
// Explore runs some seeds twice to find those.
//
// # What is not simulated
//
// Files, child processes and signals are refused with errors.ErrUnsupported, and a
// real descriptor is one that is not open: nothing is done for real by accident.
// Offloaded work (spindle.Blocking) is done on the loop's goroutine when everybody
// waits; it may compute, but not use connections of the loop.
package sim

import (
	"context"
	"errors"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simnet"
	"github.com/spindleloop/spindle/loop"
)

// ErrDeadlock says that every task waits and nothing can wake any of them.
var ErrDeadlock = simnet.ErrDeadlock

// ErrStandstill says that some task runs again and again without ever waiting, so
// that no time passes.
var ErrStandstill = simnet.ErrStandstill

// ErrStray says that a goroutine that is not the program's own has a hand in the
// run: one that the program, or a library that it uses, has started. What it does
// comes at no particular moment, so that the seed would mean nothing.
var ErrStray = simnet.ErrStray

// StrayError is an ErrStray with the goroutine's stack.
type StrayError = simnet.StrayError

// ErrBlocked says that a program blocked its goroutine, by time.Sleep, a channel or
// a mutex, in place of waiting on its loop. Nothing else could run meanwhile.
var ErrBlocked = simnet.ErrBlocked

// BlockedError is an ErrBlocked with the line that blocks.
type BlockedError = simnet.BlockedError

// Test runs a program in a world of one host and fails the test with its error. A
// panic in a task fails the test too, with the task's stack. A task may call
// tb.FailNow or tb.SkipNow, or what calls them: the other tasks are cancelled,
// the run ends in order, and then the test does.
//
// It runs in a bubble of testing/synctest, so that context.WithTimeout, time.Now
// and timers of libraries follow the world's time, and crypto/rand its seed (unless
// tests run in parallel, because it is the whole process's).
func Test(tb testing.TB, program func(context.Context) error) {
	tb.Helper()
	var fault *spindle.PanicError
	var err error
	exited := true // until it has returned
	left := inBubble(tb, 1, func(ctx context.Context, b *bubble) {
		fault, err = try(func() error { return runAlone(ctx, b, program) })
		exited = fault != nil && fault.Value == loop.ErrGoexit
	})
	switch {
	case exited && tb.Failed():
		tb.FailNow()
	case exited && tb.Skipped():
		tb.SkipNow()
	case left != nil:
		tb.Fatal(left)
	case fault != nil:
		tb.Fatal(fault) // its text has the stack
	case err != nil:
		tb.Fatal(err)
	}
}

// try runs fn and returns the panic of a task.
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

// Run runs a program in a world of one host.
func Run(ctx context.Context, program func(context.Context) error) error {
	return runAlone(ctx, nil, program)
}

func runAlone(ctx context.Context, b *bubble, program func(context.Context) error) (err error) {
	w := simnet.New(1)
	if b.surround(w); b == nil {
		defer watchStall(w).end()
	}
	defer func() { err = blame(w, err) }()
	k := w.AddHost("sim").NewProcess().Kernel()
	return spindle.RunWith(ctx, spindle.Options{Loop: optionsOf(k)}, program)
}

// blame adds what was reported of a world to the error that its run ended with,
// unless it is that error.
func blame(w *simnet.World, err error) error {
	reported := w.Reported()
	if reported == nil || errors.Is(err, reported) {
		return err
	}
	return errors.Join(reported, err)
}

// NewKernel makes the kernel of a world of one host, for the packages of this
// module.
func NewKernel() *kernel.Kernel { return simnet.New(1).AddHost("sim").NewProcess().Kernel() }

// optionsOf are those of a loop on a simulated kernel. There is no watchdog: it
// would look at real time.
func optionsOf(k *kernel.Kernel) loop.Options { return loop.Options{Kernel: k, Watchdog: -1} }
