package threads_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// Outcomes of the cases in the table of docs/design/006-threads.md. With goesOn
// everything works; the others are parts of a message.
const (
	goesOn   = "goes on"
	heldTask = "a task cannot wait, end or start another one eagerly while its thread is locked (runtime.LockOSThread"
	heldByFn = "a callback of the loop cannot return or start a task eagerly while it has changed the lock of its thread"
	stranded = "cannot go on while the loop is run on a thread that is"
	ownPanic = "the task's own panic"
	exits    = "the caller of Run exits too"
)

// threadCase is a line of the table. Its function runs in a process of its own, and
// returns what happened.
type threadCase struct {
	run  func() string
	want string
}

// threadCases are the lines of the table that need no C, by their names in it.
func threadCases() map[string]threadCase {
	all := map[string]threadCase{}
	for _, some := range []map[string]threadCase{taskCases, callbackCases, steppingCases, closingCases} {
		for name, c := range some {
			all[name] = c
		}
	}
	return all
}

// mayEnd is the one case in which the process may have to end: with this panic, and not
// with a failure of the runtime.
const (
	mayEnd     = "steps-locked-task-unlocks-and-moves"
	lostThread = "spindle: a task has unlocked the thread that its loop is stepped on"
)

const threadCaseVariable = "SPINDLE_THREAD_CASE"

// TestThreadLocks runs every case in a process of its own, because the runtime ends the
// process when such a case goes wrong.
func TestThreadLocks(t *testing.T) {
	mustSeeLocks(t)
	cases := threadCases()
	if name := os.Getenv(threadCaseVariable); name != "" {
		fmt.Println("outcome:", cases[name].run())
		os.Exit(0)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.Command(os.Args[0], "-test.run=^TestThreadLocks$")
			child.Env = append(os.Environ(), threadCaseVariable+"="+name)
			out, err := child.CombinedOutput()
			_, outcome, _ := bytes.Cut(out, []byte("outcome: "))
			if name == mayEnd && bytes.Contains(out, []byte("panic: "+lostThread)) {
				return
			}
			if err != nil || !bytes.Contains(outcome, []byte(c.want)) {
				t.Errorf("%v, want %q:\n%s", err, c.want, out)
			}
		})
	}
}

// mustSeeLocks skips the test where package goid cannot see thread locks.
func mustSeeLocks(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !goid.LockOf(goid.Current()).Locked() {
		t.Skip("skipped: thread locks cannot be seen in this build")
	}
}

// TestThreadLocksAreDocumented: the table in the design page has a line for every case,
// and a case for every line.
func TestThreadLocksAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/design/006-threads.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		lines = append(lines, m[1])
	}
	var names []string
	for name := range threadCases() {
		names = append(names, name)
	}
	for name := range cCases {
		names = append(names, name)
	}
	slices.Sort(lines)
	slices.Sort(names)
	if !slices.Equal(lines, names) {
		t.Errorf("the page has\n%q\nthe tests have\n%q", lines, names)
	}
}

// happened returns the outcome for an error or a recovered panic.
func happened(err error, recovered any) string {
	switch {
	case recovered != nil:
		return fmt.Sprint(recovered)
	case err != nil:
		return err.Error()
	}
	return goesOn
}

// outcomeOf runs fn and returns what happened.
func outcomeOf(fn func() error) (outcome string) {
	defer func() {
		if v := recover(); v != nil {
			outcome = happened(nil, v)
		}
	}()
	return happened(fn(), nil)
}

// inTask returns a function for the outcome of a run with such a task.
func inTask(task func(ctx context.Context) error) func() string {
	return func() string {
		return outcomeOf(func() error { return spindle.Run(context.Background(), task) })
	}
}

// inCallback returns a function for the outcome of a run in which such a callback runs while
// two tasks take turns, and after which they must still be able to.
func inCallback(callback func(ctx context.Context) error) func() string {
	return inTask(func(ctx context.Context) error {
		var failed error
		spindle.LoopOf(ctx).CallSoon(func() { failed = callback(ctx) })
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range 2 {
				n.Go(yields)
			}
			return yields(ctx)
		})
		return errors.Join(err, failed)
	})
}

func yields(ctx context.Context) error {
	for range 10 {
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
	}
	return nil
}

func eagerly(ctx context.Context, fn func(context.Context) error) {
	spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, fn)
}

var taskCases = map[string]threadCase{
	"task-between-waits": {inTask(func(ctx context.Context) error {
		for range 10 {
			runtime.LockOSThread()
			runtime.UnlockOSThread()
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		return nil
	}), goesOn},
	"task-waits": {inTask(func(ctx context.Context) error {
		runtime.LockOSThread()
		runtime.LockOSThread()
		return spindle.Yield(ctx)
	}), heldTask},
	"task-locks-after-newwaker": {inTask(func(ctx context.Context) error {
		w, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		runtime.LockOSThread()
		return w.Park(ctx, "nothing", spindle.AbortFunc(func() bool { return true }))
	}), heldTask},
	"task-recovers-and-waits": {inTask(func(ctx context.Context) error {
		func() {
			defer func() { recover() }()
			runtime.LockOSThread()
			spindle.Yield(ctx)
		}()
		return spindle.Yield(ctx)
	}), goesOn},
	"task-ends": {inTask(func(context.Context) error {
		runtime.LockOSThread()
		return nil
	}), heldTask},
	"task-panics": {inTask(func(context.Context) error {
		runtime.LockOSThread()
		panic(ownPanic)
	}), ownPanic},
	"task-exits": {func() string {
		outcome := make(chan string, 1)
		go func() {
			defer func() { outcome <- exits }() // unless Run returns
			outcome <- inTask(func(context.Context) error {
				runtime.LockOSThread()
				runtime.Goexit()
				return nil
			})()
		}()
		return <-outcome
	}, exits},
	"task-opens-nursery": {inTask(func(ctx context.Context) error {
		runtime.LockOSThread()
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error { return nil })
	}), heldTask},
	"task-joins-nursery": {inTask(func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.Go(forever)
			runtime.LockOSThread()
			return nil
		})
	}), heldTask},
	"task-starts-eagerly": {inTask(func(ctx context.Context) error {
		runtime.LockOSThread()
		eagerly(ctx, forever)
		return nil
	}), heldTask},
	"eager-task-waits": {inTask(func(ctx context.Context) error {
		eagerly(ctx, func(ctx context.Context) error {
			runtime.LockOSThread()
			return spindle.Yield(ctx)
		})
		return forever(ctx)
	}), heldTask},
	"eager-task-ends": {inTask(func(ctx context.Context) error {
		eagerly(ctx, func(ctx context.Context) error {
			runtime.LockOSThread()
			return nil
		})
		return forever(ctx)
	}), heldTask},
	"run-on-locked-thread": {func() string {
		runtime.LockOSThread()
		return inTask(yields)()
	}, goesOn},
}

var callbackCases = map[string]threadCase{
	"callback-unlocks": {inCallback(func(ctx context.Context) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		spindle.RootNursery(ctx).Go(yields)
		return nil
	}), goesOn},
	"callback-returns-locked": {inCallback(func(context.Context) error {
		runtime.LockOSThread()
		return nil
	}), heldByFn},
	"callback-returns-locked-before-first-task": {func() string {
		return outcomeOf(func() error {
			l, err := loop.New(loop.Options{})
			if err != nil {
				return err
			}
			l.CallSoon(runtime.LockOSThread)
			return spindle.Options{On: l}.Run(context.Background(), yields)
		})
	}, heldByFn},
	"callback-returns-locked-and-is-forgiven": {func() string {
		panics := 0
		o := spindle.Options{Loop: loop.Options{OnPanic: func(p *loop.PanicError) error {
			if !strings.Contains(p.Error(), heldByFn) {
				return p
			}
			panics++
			return nil
		}}}
		return outcomeOf(func() error {
			err := o.Run(context.Background(), func(ctx context.Context) error {
				spindle.LoopOf(ctx).CallSoon(runtime.LockOSThread)
				spindle.LoopOf(ctx).CallSoon(runtime.LockOSThread)
				return yields(ctx)
			})
			if err == nil && panics != 1 {
				err = fmt.Errorf("%d panics", panics)
			}
			return err
		})
	}, goesOn},
	"callback-starts-eagerly": {inCallback(func(ctx context.Context) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		eagerly(ctx, yields)
		return nil
	}), heldByFn},
	"callback-starts-eagerly-unlocked": {inCallback(func(ctx context.Context) error {
		eagerly(ctx, yields)
		return nil
	}), goesOn},
}
