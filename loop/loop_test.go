package loop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
)

func newLoop(tb testing.TB, opts loop.Options) *loop.Loop {
	tb.Helper()
	l, err := loop.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		var lost *loop.LostError
		if err := l.Close(); err != nil && !errors.As(err, &lost) && err != loop.ErrClosed {
			tb.Errorf("close: %v", err)
		}
	})
	return l
}

// run runs l until Stop and fails the test if it ends otherwise.
func run(tb testing.TB, l *loop.Loop) {
	tb.Helper()
	if err := l.Run(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

// everyBackend runs a test on each poller of the system.
func everyBackend(t *testing.T, test func(t *testing.T, opts loop.Options)) {
	for _, name := range short.Backends() {
		t.Run(name, func(t *testing.T) { test(t, loop.Options{Backend: name}) })
	}
}

// virtual is a kernel with a clock that stands still, except that a wait for a timer
// advances it to that timer. Descriptors are real.
type virtual struct {
	kernel.Poller
	now time.Duration
}

func (v *virtual) Mono() time.Duration { return v.now }

func (v *virtual) Wall() time.Time { return time.Unix(0, 0).Add(v.now) }

func (*virtual) At(mono time.Duration) time.Time { return time.Unix(0, 0).Add(mono) }

func (v *virtual) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	n, err := v.Poller.Wait(events, min(timeout, 0))
	if n == 0 && timeout > 0 {
		v.now += timeout
	}
	return n, err
}

// newVirtual returns a loop in virtual time.
func newVirtual(tb testing.TB, opts loop.Options) (*loop.Loop, *virtual) {
	tb.Helper()
	k, err := kernel.Open("")
	if err != nil {
		tb.Fatal(err)
	}
	v := &virtual{Poller: k.Poller}
	k.Poller, k.Clock = v, v
	opts = loop.Internal().WithKernel(opts, k)
	return newLoop(tb, opts), v
}

// panics calls fn and returns the value of its panic.
func panics(fn func()) (value any) {
	defer func() { value = recover() }()
	fn()
	return nil
}

func wantPanic(t *testing.T, words string, fn func()) {
	t.Helper()
	v := panics(fn)
	if s, ok := v.(string); !ok || !strings.HasPrefix(s, "loop: ") || !strings.Contains(s, words) {
		t.Errorf("panic %v, want one of package loop with %q", v, words)
	}
}

func TestCloseWhileRunningIsRefused(t *testing.T) {
	l := newLoop(t, loop.Options{})
	const running = "loop: running; Stop it and wait for Run to return"
	var inside, other error
	l.CallSoon(func() {
		inside = l.Close()
		answer := make(chan error)
		go func() { answer <- l.Close() }()
		other = <-answer
		l.Stop()
	})
	run(t, l)
	if fmt.Sprint(inside) != running || fmt.Sprint(other) != running {
		t.Fatalf("close while running: %v, %v", inside, other)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != loop.ErrClosed {
		t.Fatalf("second close: %v", err)
	}
}

func TestWrongGoroutineIsNamed(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	l.CallSoon(func() {
		handle, timer := l.CallSoon(func() {}), l.CallLater(0, func() {})
		watch, err := l.Watch(fds[0], loop.Readable, loop.Level, func(loop.Ready) {})
		if err != nil {
			t.Error(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for name, call := range map[string]func(){
				"CallSoon":         func() { l.CallSoon(func() {}) },
				"CallSoonPriority": func() { l.CallSoonPriority(loop.High, func() {}) },
				"CallLater":        func() { l.CallLater(0, func() {}) },
				"CallAt":           func() { l.CallAt(0, func() {}) },
				"AddReader":        func() { l.AddReader(fds[1], func() {}) },
				"RemoveWriter":     func() { l.RemoveWriter(fds[1]) },
				"Watch":            func() { l.Watch(fds[1], loop.Readable, loop.Level, func(loop.Ready) {}) },
				"Watch.Modify":     func() { watch.Modify(loop.Writable, loop.Level) },
				"Watch.Cancel":     func() { watch.Cancel() },
				"Handle.Cancel":    func() { handle.Cancel() },
				"Timer.Cancel":     func() { timer.Cancel() },
				"Stats":            func() { l.Stats() },
				"Pending":          func() { l.Pending() },
				"Offload":          func() { loop.Offload(l, func() (int, error) { return 0, nil }, func(int, error) {}) },
			} {
				wantPanic(t, name+" called from a goroutine that is not the loop's", call)
			}
		}()
		<-done
		l.Stop()
	})
	run(t, l) // still works
}

func TestUseAfterClose(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	handle, timer := l.CallSoon(func() {}), l.CallLater(0, func() {})
	watch, err := l.Watch(fds[0], loop.Readable, loop.Level, func(loop.Ready) {})
	if err != nil {
		t.Fatal(err)
	}
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Callbacks != 1 {
		t.Fatalf("close with a callback left: %v", err)
	}
	if err := l.Post(func() {}); err != loop.ErrClosed {
		t.Errorf("Post: %v", err)
	}
	l.Stop() // harmless
	for _, call := range []func(){
		func() { l.Run(context.Background()) },
		func() { l.RunOnce(0) },
		func() { l.CallSoon(func() {}) },
		func() { l.CallLater(0, func() {}) },
		func() { l.AddReader(fds[0], func() {}) },
		func() { loop.Offload(l, func() (int, error) { return 0, nil }, func(int, error) {}) },
	} {
		wantPanic(t, "closed loop", call)
	}
	if handle.Cancel() || timer.Cancel() || watch.Cancel() {
		t.Error("cancelled something on a closed loop")
	}
	if err := watch.Modify(loop.Readable, loop.Level); fmt.Sprint(err) != "loop: descriptor is not watched" {
		t.Errorf("Modify: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	for name, call := range map[string]func(){
		"CallSoon with a nil":         func() { l.CallSoon(nil) },
		"CallSoonPriority with a nil": func() { l.CallSoonPriority(loop.Low, nil) },
		"unknown priority":            func() { l.CallSoonPriority(77, func() {}) },
		"CallLater with a nil":        func() { l.CallLater(0, nil) },
		"CallAt with a nil":           func() { l.CallAt(0, nil) },
		"Post with a nil":             func() { l.Post(nil) },
		"AddReader with a nil":        func() { l.AddReader(fds[0], nil) },
		"AddWriter with a nil":        func() { l.AddWriter(fds[0], nil) },
		"Watch with a nil":            func() { l.Watch(fds[0], loop.Readable, loop.Level, nil) },
		"unknown interest":            func() { l.Watch(fds[0], 0, loop.Level, func(loop.Ready) {}) },
		"interest or mode":            func() { l.Watch(fds[0], loop.Readable, 9, func(loop.Ready) {}) },
		"Offload with a nil":          func() { loop.Offload[int](l, nil, nil) },
	} {
		wantPanic(t, name, call)
	}
	for _, fd := range []int{-1, math.MinInt + 1, math.MaxInt, 1 << 30} {
		err := l.AddReader(fd, func() {})
		if !errors.Is(err, syscall.EBADF) || !strings.Contains(err.Error(), fmt.Sprintf(": fd %d: ", fd)) {
			t.Errorf("fd %d: %v", fd, err)
		}
	}
	if _, err := loop.New(loop.Options{Backend: "abacus"}); !errors.Is(err, kernel.ErrUnknownBackend) {
		t.Errorf("unknown backend: %v", err)
	}
	var zero struct {
		h loop.Handle
		t loop.Timer
		w loop.Watch
		j loop.Job
	}
	if zero.h.Cancel() || zero.t.Cancel() || zero.w.Cancel() || zero.j.Cancel() {
		t.Error("a zero handle cancelled something")
	}
}

// once runs one turn that does not wait.
func once(t *testing.T, l *loop.Loop) int {
	t.Helper()
	n, err := l.RunOnce(0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
