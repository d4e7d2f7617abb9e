package cancelpoints_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// wait is a function that waits.
type wait struct {
	// name is that of the function with its package, as in the list of exported
	// functions. Several are separated by spaces. What follows a comma is a case.
	name string

	// ends means that a call may end by itself, without an error.
	ends bool

	simulated bool // it waits only in simulated runs
	python    bool // it needs an interpreter: see package pyapp

	// prepare returns a call of the function that waits. It may start tasks in n, and
	// what it opens is closed by a function that it gives to after.
	prepare func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error)
}

// ready is a prepare for a call that needs no preparation.
func ready(call func(context.Context) error) func(context.Context, *spindle.Nursery, func(func())) (func(context.Context) error, error) {
	return func(context.Context, *spindle.Nursery, func(func())) (func(context.Context) error, error) {
		return call, nil
	}
}

// allWaits is the table.
var allWaits = slices.Concat(rootWaits, cosyncWaits, streamWaits, fileWaits, webWaits, relayWaits, workerWaits)

// moments are the ways in which a scope ends a wait inside. Each reports whether the scope has
// absorbed its own cancellation.
var moments = map[string]func(ctx context.Context, call func(context.Context) error) (absorbed bool, err error){
	"MoveOnAfter, during the wait": func(ctx context.Context, call func(context.Context) error) (bool, error) {
		return spindle.MoveOnAfter(ctx, soon, call)
	},
	"MoveOnAfter, before the wait": func(ctx context.Context, call func(context.Context) error) (bool, error) {
		return spindle.MoveOnAfter(ctx, 0, call)
	},
	"FailAfter, during the wait": func(ctx context.Context, call func(context.Context) error) (bool, error) {
		return timedOut(spindle.FailAfter(ctx, soon, call))
	},
	"FailAfter, before the wait": func(ctx context.Context, call func(context.Context) error) (bool, error) {
		return timedOut(spindle.FailAfter(ctx, 0, call))
	},
	"WithScope, during the wait": func(ctx context.Context, call func(context.Context) error) (absorbed bool, err error) {
		err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			spindle.LoopOf(ctx).CallLater(soon, func() { s.Cancel(errors.New("on purpose")) })
			defer func() { absorbed = s.Err() != nil }()
			return call(ctx)
		})
		return absorbed, err
	},
	"WithScope, before the wait": func(ctx context.Context, call func(context.Context) error) (absorbed bool, err error) {
		var scope *spindle.Scope
		err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			scope = s
			s.Cancel(errors.New("on purpose"))
			return call(ctx)
		})
		return scope.Caught(), err
	},
}

// soon is when waits are cancelled. A wait that has not begun by then is cancelled when it
// begins, with the same result.
const soon = 2 * time.Millisecond

func timedOut(err error) (bool, error) {
	if errors.Is(err, spindle.ErrTimeout) {
		return true, nil
	}
	return false, err
}

// derived are the contexts that code passes on inside a scope.
var derived = map[string]func(ctx context.Context) (context.Context, func()){
	"the scope": func(ctx context.Context) (context.Context, func()) { return ctx, func() {} },
	"with value": func(ctx context.Context) (context.Context, func()) {
		return context.WithValue(ctx, wait{}.key(), 1), func() {}
	},
	"with cancel": func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel
	},
}

func (wait) key() any { return &allWaits }

// TestScopesAbsorbTheirCancellationOfEveryWait: a scope that ends a wait, or has ended before it begins, absorbs
// the error, and the task goes on.
func TestScopesAbsorbTheirCancellationOfEveryWait(t *testing.T) {
	for _, w := range allWaits {
		t.Run(w.name, func(t *testing.T) {
			if w.python && realPython() == "" {
				t.Skip("SPINDLE_PYTHON is not set")
			}
			for moment, end := range moments {
				for how, derive := range derived {
					if err := endWait(t.Context(), w, end, derive); err != nil {
						t.Errorf("%s, in a context %s: %v", moment, how, err)
					}
				}
			}
		})
	}
}

// endWait makes one call and ends it.
func endWait(ctx context.Context, w wait, end func(context.Context, func(context.Context) error) (bool, error), derive func(context.Context) (context.Context, func())) error {
	run := spindle.Run
	if w.simulated {
		run = sim.Run
	}
	return run(ctx, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			var closing []func()
			defer func() {
				for _, fn := range slices.Backward(closing) {
					fn()
				}
			}()
			call, err := w.prepare(ctx, n, func(fn func()) { closing = append(closing, fn) })
			if err != nil {
				return fmt.Errorf("preparing: %w", err)
			}
			absorbed, err := end(ctx, func(ctx context.Context) error {
				ctx, cancel := derive(ctx)
				defer cancel()
				return call(ctx)
			})
			switch {
			case err != nil:
				return fmt.Errorf("escaped: %w", err)
			case !absorbed && !w.ends:
				return errors.New("the wait has ended by itself")
			}
			return spindle.Checkpoint(ctx) // the scope around is not affected
		})
	})
}

// notWaits are the exported functions with a context that do not wait in it, with the
// reason.
var notWaits = map[string]string{
	"returns what the context has": ".Current .LoopOf .ScopeOf .RootNursery .Rand .Now .TracerOf .TasksOf .TreeOf tracing.Of",
	"makes an object":              ".NewFuture .NewTicker .WithTracer .Pool.In tracing.With",
	"changes an object":            ".Ticker.Reset",
	"starts tasks":                 ".Nursery.Go .Nursery.GoWith",
	"starts programs":              "sim.Host.Go sim.Host.Serve",
	"makes a run":                  ".Run .Options.Run .RunOn .Options.RunOn .RunGroup .Options.RunGroup .NurseryOn sim.Run",
	"runs a loop":                  "loop.Loop.Run loop.Group.Run",
	"calls its namesake, which is in the table":   "either.Sleep either.Now either.Checkpoint either.Blocking either.FailAfter either.MoveOnAfter either.WithNursery either.Nursery.Go either.Mutex.Lock",
	"is for goroutines":                           ".CallOn sim.Search.Find",
	"breaks the sequence, which no scope absorbs": "sim.Sequencer.Step",
	"keeps cancellation out":                      ".Shield .Grace",
	"does not wait":                               "inspect.Snapshot",
	"is a callback function":                      "stream.TLS.Handler transport.Connect transport.OpenDatagram ws.Connect",
	"registers a function":                        "pyapp.Handle pyapp.HandleStream",
}

// exportedFunc is a line of the list of exported functions.
var exportedFunc = regexp.MustCompile(`^([\w/.]+): func (?:\(\w+ \*?(\w+)(?:\[\w+\])?\) )?(\w+)(?:\[[^\]]*\])?\(.*ctx context\.Context`)

// TestEveryWaitIsInTheTable: an exported function with a context is in allWaits or in
// notWaits.
func TestEveryWaitIsInTheTable(t *testing.T) {
	known := map[string]bool{}
	for _, w := range allWaits {
		names, _, _ := strings.Cut(w.name, ",")
		for name := range strings.FieldsSeq(names) {
			known[name] = true
		}
	}
	for _, names := range notWaits {
		for name := range strings.FieldsSeq(names) {
			known[name] = true
		}
	}
	list, err := os.ReadFile("../../tidy/testdata/api.txt")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(list)) {
		m := exportedFunc.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := m[1] + "." + m[2] + "." + m[3]
		name = strings.ReplaceAll(strings.TrimPrefix(name, ".."), "..", ".")
		if m[1] == "." {
			name = "." + strings.TrimPrefix(strings.TrimPrefix(name, "."), ".")
		}
		if checked++; !known[name] {
			t.Errorf("%s has a context, and is in no table of this test: %s", name, strings.TrimSpace(line))
		}
	}
	if checked < 80 {
		t.Errorf("only %d functions were found, of %d known ones: %v", checked, len(known), slices.Sorted(maps.Keys(known)))
	}
}
