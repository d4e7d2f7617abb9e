package pyapp_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/tracing"
)

// result is what a call returns, without its type.
func result[T any](ctx context.Context, app *pyapp.App, target string, args ...any) (any, error) {
	v, err := pyapp.Call[T](ctx, app, target, args...)
	return v, err
}

func TestCallOfFunctionsAndCoroutines(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	ctx := t.Context()
	type shape struct {
		At    struct{ X, Y int }
		Day   string
		Bytes []byte
	}
	want := shape{Day: "2030-01-02", Bytes: []byte{0, 255}}
	want.At.X, want.At.Y = 3, 4
	for name, test := range map[string]struct {
		call func() (any, error)
		want any
	}{
		"function":          {func() (any, error) { return result[int](ctx, app, "functions:add", 2, 3) }, 5},
		"keyword":           {func() (any, error) { return result[int](ctx, app, "functions:add", 2, pyapp.Named{"b": 5}) }, 7},
		"default":           {func() (any, error) { return result[float64](ctx, app, "functions:add", 0.5) }, 1.5},
		"strings":           {func() (any, error) { return result[string](ctx, app, "functions:add", "<κό", "σμε>") }, "<κόσμε>"},
		"coroutine":         {func() (any, error) { return result[[]string](ctx, app, "functions:later", "x", 2) }, []string{"x", "x"}},
		"on another thread": {func() (any, error) { return result[bool](ctx, app, "functions:thread") }, false},
		"attribute, types":  {func() (any, error) { return result[shape](ctx, app, "functions:Shapes.point", 3, 4) }, want},
		"standard library":  {func() (any, error) { return result[float64](ctx, app, "math:sqrt", 16) }, 4.0},
		"no result":         {func() (any, error) { return result[any](ctx, app, "functions:prepare") }, nil},
		"trace": {func() (any, error) {
			return result[string](tracing.With(ctx, tracing.Context{ID: [16]byte{1}, Span: [8]byte{2}}), app, "functions:trace")
		}, "00-01000000000000000000000000000000-0200000000000000-00"},
	} {
		if got, err := test.call(); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestErrorOfACall(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxCallBytes: 10_000})
	ctx := t.Context()
	for _, target := range []string{"functions:fails", "functions:fails_on_a_thread"} {
		_, err := pyapp.Call[any](ctx, app, target, "some text")
		failed := (*pyapp.Error)(nil)
		if !errors.As(err, &failed) || failed.Type != "functions.Broken" || failed.Message != "some text" || failed.Target != target {
			t.Fatalf("%s: %v", target, err)
		}
		if err.Error() != "pyapp: "+target+": functions.Broken: some text" {
			t.Error(err)
		}
		for _, part := range []string{"Traceback (most recent call last):\n", "functions.py", "in inner\n    raise Broken(text)", "functions.Broken: some text"} {
			if !strings.Contains(failed.Traceback, part) {
				t.Errorf("%s: %q is not in\n%s", target, part, failed.Traceback)
			}
		}
		if strings.Contains(failed.Traceback, "calls.py") || strings.Contains(failed.Traceback, "thread.py") {
			t.Errorf("frames that are not the user's:\n%s", failed.Traceback)
		}
	}
	for name, test := range map[string]struct {
		target, kind string
		is           error
	}{
		"no module":      {"no_such_module:f", "ModuleNotFoundError", pyapp.ErrNotFound},
		"no attribute":   {"functions:no_such", "AttributeError", pyapp.ErrNotFound},
		"no function":    {"functions:not_callable", "AttributeError", pyapp.ErrNotFound},
		"no colon":       {"functions", "AttributeError", pyapp.ErrNotFound},
		"broken module":  {"broken:f", "RuntimeError", nil},
		"missing":        {"functions:add", "TypeError", nil},
		"no counterpart": {"functions:no_counterpart", "spindle.server.values.Inconvertible", nil},
		"no text":        {"functions:mute", "functions.Mute", nil},
		"exits":          {"functions:leave", "SystemExit", nil},
	} {
		_, err := pyapp.Call[any](ctx, app, test.target)
		failed := (*pyapp.Error)(nil)
		if !errors.As(err, &failed) || failed.Type != test.kind || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failed := (*pyapp.Error)(nil)
	if _, err := pyapp.Call[any](ctx, app, "no_such_module:f"); !errors.As(err, &failed) || !strings.HasSuffix(failed.Message, "or on the path; App.Dir is the directory of the modules") {
		t.Error(err)
	}
	if _, err := pyapp.Call[any](ctx, app, "functions:verbose", 5<<20); !errors.As(err, &failed) || len(failed.Message) > 1<<20 {
		t.Errorf("%.100v", err)
	}
	if _, err := pyapp.Call[int](ctx, app, "functions:later", "x"); err == nil || err.Error() != "pyapp: functions:later: result: Python's list does not fit into Go's int" {
		t.Error(err)
	}
	if _, err := pyapp.Call[int](ctx, app, "functions:add", strings.Repeat("x", 10_000)); err == nil || !strings.Contains(err.Error(), "MaxCallBytes") {
		t.Error(err)
	}
}

// TestCancellationOfACall: asyncio.CancelledError arrives in Python.
func TestCancellationOfACall(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	for name, end := range map[string]func(context.Context) (context.Context, func()){
		"cancel": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(nil) }
		},
		"deadline": withManualDeadline,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pyapp.Call[any](t.Context(), app, "functions:prepare"); err != nil {
				t.Fatal(err)
			}
			ctx, stop := end(t.Context())
			failed := make(chan error)
			go func() {
				_, err := pyapp.Call[any](ctx, app, "functions:block")
				failed <- err
			}()
			if _, err := pyapp.Call[bool](t.Context(), app, "functions:begun"); err != nil {
				t.Fatal(err)
			}
			stop()
			if err := <-failed; err == nil || err != context.Cause(ctx) {
				t.Error(err)
			}
			if ok, err := pyapp.Call[bool](t.Context(), app, "functions:cancelled"); !ok || err != nil {
				t.Error(ok, err)
			}
		})
	}
}

func TestDeadlineOfACall(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	if _, err := pyapp.Call[any](t.Context(), app, "functions:prepare"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := pyapp.Call[any](ctx, app, "functions:block"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := pyapp.Call[int](ctx, app, "functions:add", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestCallInATask: a call does not block the loop of the task, and a scope cancels it.
func TestCallInATask(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if _, err := pyapp.Call[any](ctx, app, "functions:prepare"); err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, err := pyapp.Call[any](ctx, app, "functions:block")
				return err
			})
			if _, err := pyapp.Call[bool](ctx, app, "functions:begun"); err != nil {
				return err
			}
			n.Scope().Cancel(nil)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	if ok, err := pyapp.Call[bool](t.Context(), app, "functions:cancelled"); !ok || err != nil {
		t.Error(ok, err)
	}
}

func TestCallsOfManyGoroutines(t *testing.T) {
	app := prepare(t, &pyapp.App{Workers: 2})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				if got, err := pyapp.Call[int](t.Context(), app, "functions:add", i, j); err != nil || got != i+j {
					t.Error(got, err)
				}
				if got, err := pyapp.Call[[]int](t.Context(), app, "functions:later", i, 2); err != nil || !slices.Equal(got, []int{i, i}) {
					t.Error(got, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestCallsOfCoroutinesDoNotWaitBehindFunctions: functions have threads of their own, and neither an
// import nor asyncio's own pool waits for one of them.
func TestCallsOfCoroutinesDoNotWaitBehindFunctions(t *testing.T) {
	app := prepare(t, &pyapp.App{CallThreads: 3})
	ctx := t.Context()
	if _, err := pyapp.Call[any](ctx, app, "functions:prepare"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := pyapp.Call[any](ctx, app, "functions:hold"); err != nil {
				t.Error(err)
			}
		})
	}
	if n, err := pyapp.Call[int](ctx, app, "functions:count_holding", 3); n != 3 || err != nil {
		t.Error(n, err)
	}
	if n, err := pyapp.Call[int](ctx, app, "lazy:answer"); n != 42 || err != nil {
		t.Error(n, err)
	}
	if n, err := pyapp.Call[int](ctx, app, "functions:count_holding", 3); n != 3 || err != nil {
		t.Error("further functions did not wait:", n, err)
	}
	if _, err := pyapp.Call[any](ctx, app, "functions:release"); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestLargeResults(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxCallBytes: 1 << 20})
	if got, err := pyapp.Call[string](t.Context(), app, "functions:large", 1<<20-5); err != nil || len(got) != 1<<20-5 {
		t.Error(len(got), err)
	}
	if _, err := pyapp.Call[string](t.Context(), app, "functions:large", 1<<20); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Error(err)
	}
}
