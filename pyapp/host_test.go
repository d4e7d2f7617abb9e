package pyapp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/tracing"
)

type pair struct{ A, B int }

// provide adds the functions that the tests call from Python.
func provide(app *pyapp.App) {
	pyapp.Handle(app, "add", func(ctx context.Context, in pair) (int, error) { return in.A + in.B, nil })
	pyapp.Handle(app, "sum", func(ctx context.Context, in []int) (sum int, err error) {
		for _, n := range in {
			sum += n
		}
		return sum, nil
	})
	pyapp.Handle(app, "echo", func(ctx context.Context, in any) (any, error) { return in, nil })
	pyapp.Handle(app, "trace", func(ctx context.Context, _ any) (string, error) { return tracing.Of(ctx).String(), nil })
	pyapp.Handle(app, "fail", func(ctx context.Context, text string) (any, error) {
		return nil, fmt.Errorf("opening: %w", &fs.PathError{Op: "open", Path: text, Err: fs.ErrNotExist})
	})
	pyapp.Handle(app, "panic", func(ctx context.Context, _ any) (any, error) { panic("on purpose") })
	pyapp.Handle(app, "odd", func(ctx context.Context, _ any) (any, error) { return map[string]any{"a": make(chan int)}, nil })
	pyapp.Handle(app, "raise", func(ctx context.Context, text string) (any, error) {
		return pyapp.Call[any](ctx, app, "functions:fails", text)
	})
	pyapp.Handle(app, "down", func(ctx context.Context, n int) (int, error) {
		return pyapp.Call[int](ctx, app, "back:down", n-1)
	})
	pyapp.Handle(app, "async down", func(ctx context.Context, n int) (int, error) {
		return pyapp.Call[int](ctx, app, "back:async_down", n-1)
	})
}

func TestGoFunctionsCalledFromPython(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	provide(app)
	for _, target := range []string{"back:call", "back:async_call"} {
		for name, test := range map[string]struct {
			args []any
			want string
		}{
			"several arguments":    {[]any{"add", 2, 3}, "5"},
			"one argument":         {[]any{"add", pair{2, 3}}, "5"},
			"fewer than fields":    {[]any{"add"}, "0"},
			"a slice":              {[]any{"sum", []int{1, 2, 3}}, "6"},
			"several into a slice": {[]any{"sum", 1, 2, 3}, "6"},
			"no argument":          {[]any{"echo"}, "<nil>"},
			"any":                  {[]any{"echo", "text"}, "text"},
			"several into any":     {[]any{"echo", "text", 1}, "[text 1]"},
		} {
			if got, err := pyapp.Call[any](t.Context(), app, target, test.args...); err != nil || fmt.Sprint(got) != test.want {
				t.Errorf("%s, %s: %v, %v", target, name, got, err)
			}
		}
		trace := tracing.Context{ID: [16]byte{1}, Span: [8]byte{2}}
		if got, err := pyapp.Call[string](tracing.With(t.Context(), trace), app, target, "trace"); err != nil || got != trace.String() {
			t.Errorf("%s: trace %s, %v", target, got, err)
		}
	}
}

func TestErrorsOfGoFunctions(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxCallBytes: 1 << 20})
	provide(app)
	pyapp.Handle(app, "large", func(ctx context.Context, _ any) ([]byte, error) { return make([]byte, 2<<20), nil })
	pyapp.Receive(app, "inbox", cosync.NewInbox[int](1))
	for name, test := range map[string]struct {
		args []any
		kind string
		text string
	}{
		"an error":          {[]any{"fail", "/nothing"}, "*fs.PathError", "opening: open /nothing: file does not exist"},
		"a panic":           {[]any{"panic"}, "pyapp.panicked", "panic: on purpose"},
		"no function":       {[]any{"nothing"}, "*pyapp.unknown", `the Go program has no function "nothing"`},
		"argument":          {[]any{"add", map[string]any{"A": 1, "B": "x"}}, "error", "args[0].B: Python's str does not fit into Go's int"},
		"arguments":         {[]any{"add", 1, "x"}, "error", "args[1]: Python's str does not fit into Go's int"},
		"too many":          {[]any{"add", 1, 2, 3}, "error", "3 arguments do not fit into the 2 fields of a pyapp_test.pair"},
		"result":            {[]any{"odd"}, "error", "result.a: a chan int has no counterpart in Python"},
		"large result":      {[]any{"large"}, "error", "the result has 2097152 bytes; MaxCallBytes is 1048576"},
		"not a stream":      {[]any{"inbox"}, "error", "inbox is an inbox, and not a function"},
		"raised in between": {[]any{"raise", "some text"}, "*pyapp.Error", "pyapp: functions:fails: functions.Broken: some text"},
	} {
		got, err := pyapp.Call[[]string](t.Context(), app, "back:error", test.args...)
		if err != nil || len(got) != 3 || got[0] != test.kind || got[1] != test.text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if name == "raised in between" && !strings.Contains(got[2], "in inner\n") {
			t.Error("no traceback:", got[2])
		}
	}
	if got, err := pyapp.Call[string](t.Context(), app, "back:misuse", "echo"); err != nil || got != "args[0][1]: a object has no counterpart in Go" {
		t.Error(got, err)
	}
	if _, err := pyapp.Call[any](t.Context(), app, "back:call_on_the_loop"); err == nil || !strings.Contains(err.Error(), "async_call") {
		t.Error(err)
	}
	_, err := pyapp.Call[any](t.Context(), app, "back:call", "fail", "x") // through both languages
	if failed := (*pyapp.Error)(nil); !errors.As(err, &failed) || failed.Type != "spindle.host.GoError" || !strings.Contains(failed.Traceback, "back.py") {
		t.Errorf("%v %+v", err, failed)
	}
}

// TestEndOfACallOfGo: the context of the function ends when Python does not wait any more.
func TestEndOfACallOfGo(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	app := prepare(t, &pyapp.App{Env: append(os.Environ(), "NOTE="+note)})
	ended := make(chan error, 1)
	begun := make(chan struct{}, 1)
	pyapp.Handle(app, "wait", func(ctx context.Context, _ any) (any, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	for target, want := range map[string]error{"back:impatient": nil, "back:cancelled": context.Canceled} {
		_, err := pyapp.Call[any](t.Context(), app, target, "wait")
		if target == "back:impatient" && err != nil || target == "back:cancelled" && err == nil {
			t.Errorf("%s: %v", target, err)
		}
		<-begun
		if err := <-ended; want != nil && err != want || err == nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	for target, interrupted := range map[string]bool{"back:until_cancelled": true, "back:async_call": false} {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := pyapp.Call[any](ctx, app, target, "wait")
			failed <- err
		}()
		<-begun
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-ended
		if interrupted { // the thread's wait has ended
			until.Holds(t, func() bool { _, err := os.Stat(note); return err == nil })
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // the deadline travels
	defer cancel()
	pyapp.Handle(app, "deadline", func(ctx context.Context, _ any) (bool, error) {
		due, ok := ctx.Deadline()
		return ok && time.Until(due) > 59*time.Minute, nil
	})
	if ok, err := pyapp.Call[bool](ctx, app, "back:call", "deadline"); !ok || err != nil {
		t.Error(ok, err)
	}
}

// TestReentrance: calls from Go to Python to Go do not wait for each other, even if each of
// them holds a thread.
func TestReentrance(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxGoCalls: 4})
	provide(app)
	const chains = 64 // more than there are threads for a depth
	for _, target := range []string{"back:down", "back:async_down"} {
		failed := make(chan error, chains)
		for range chains {
			go func() {
				n, err := pyapp.Call[int](t.Context(), app, target, 4)
				failed <- errors.Join(err, map[bool]error{false: errors.New("wrong")}[n == 0])
			}()
		}
		for range chains {
			if err := <-failed; err != nil {
				t.Error(target, err)
			}
		}
		if n, err := pyapp.Call[int](t.Context(), app, target, 16); n != 0 || err != nil {
			t.Error(target, n, err)
		}
		if _, err := pyapp.Call[int](t.Context(), app, target, 17); err == nil || !strings.Contains(err.Error(), "RecursionError: spindle: ") {
			t.Error(target, err)
		}
	}
}

func TestLimitOfGoCalls(t *testing.T) {
	const limit = 3
	app := prepare(t, &pyapp.App{MaxGoCalls: limit})
	gate := make(chan struct{})
	var now, most atomic.Int64
	pyapp.Handle(app, "add", func(ctx context.Context, in pair) (int, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-gate
		return in.A + in.B, nil
	})
	type answer struct {
		sum int
		err error
	}
	answers := make(chan answer)
	go func() {
		sum, err := pyapp.Call[int](t.Context(), app, "back:many", "add", 200)
		answers <- answer{sum, err}
	}()
	until.Holds(t, func() bool { return now.Load() == limit })
	close(gate)
	if a := <-answers; a.err != nil || a.sum != 200*199/2+200 {
		t.Error(a)
	}
	if n := most.Load(); n != limit {
		t.Error(n, "calls at a time")
	}
}

func TestValuesSentToAnInbox(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	inbox := cosync.NewInbox[int](4)
	pyapp.Receive(app, "numbers", inbox)
	if _, err := pyapp.Call[any](t.Context(), app, "back:send", "numbers", 100); err != nil {
		t.Fatal(err) // it does not wait for the inbox
	}
	for want := range 100 {
		if n, err := inbox.Get(t.Context()); n != want || err != nil {
			t.Fatal(n, want, err)
		}
	}
	n, err := pyapp.Call[int](t.Context(), app, "back:fill", "numbers")
	if err != nil || n < 1024 || n > 1024+5 {
		t.Error(n, err)
	}
	for want := range n {
		if got, err := inbox.Get(t.Context()); got != want || err != nil {
			t.Fatal(got, want, err)
		}
	}
}

// TestCrashDuringCallsOfGo: the contexts of a worker's functions end with it, and only its calls fail.
func TestCrashDuringCallsOfGo(t *testing.T) {
	app := prepare(t, &pyapp.App{Workers: 2})
	provide(app)
	begun, ended := make(chan int, 2), make(chan error, 2)
	release := make(chan struct{})
	pyapp.Handle(app, "wait", func(ctx context.Context, pid int) (string, error) {
		begun <- pid
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		case <-release:
		}
		return "released", nil
	})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 2)
	for range 2 { // one in each worker
		go func() {
			text, err := pyapp.Call[string](t.Context(), app, "back:call_with_pid", "wait")
			if err == nil && text != "released" {
				err = errors.New(text)
			}
			failed <- err
		}()
	}
	killed := <-begun
	if other := <-begun; other == killed {
		t.Fatal("both calls are in one worker")
	}
	if !proctest.KillChild(killed) {
		t.Fatal("the worker has ended before it was killed")
	}
	if err := <-ended; err != pyapp.ErrCrashed {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, pyapp.ErrCrashed) {
		t.Error(err)
	}
	close(release)
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if len(ended) > 0 {
		t.Error("the function of the other worker has ended, too")
	}
}

// TestCallsOfGoDuringShutdown: calls that run may call Go, and Go Python, until they have finished.
func TestCallsOfGoDuringShutdown(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	provide(app)
	begun, resume := make(chan struct{}), make(chan struct{})
	pyapp.Handle(app, "wait", func(ctx context.Context, _ any) (int, error) {
		close(begun)
		<-resume
		return pyapp.Call[int](ctx, app, "back:down", 2)
	})
	result := make(chan error, 1)
	go func() {
		n, err := pyapp.Call[int](t.Context(), app, "back:call", "wait")
		if n != 0 {
			err = errors.New("wrong")
		}
		result <- err
	}()
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- app.Shutdown(t.Context()) }()
	until.Holds(t, func() bool { return pyapp.Waits(app) == 1 })
	close(resume)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStartupThatCallsGo(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "starts:app"})
	started := make(chan string, 1)
	pyapp.Handle(app, "starting", func(ctx context.Context, text string) (string, error) {
		started <- text
		return "answer", nil
	})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := <-started; text != "lifespan" {
		t.Error(text)
	}
	if code, text := get(t, serve(t, app)+"/"); code != 200 || text != "answer" {
		t.Error(code, text)
	}
}

func TestTwoFunctionsWithAName(t *testing.T) {
	defer func() {
		if p := recover(); p == nil {
			t.Error("no panic")
		}
	}()
	app := &pyapp.App{}
	provide(app)
	provide(app)
}
