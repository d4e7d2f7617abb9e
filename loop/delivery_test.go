package loop_test

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// once runs one turn that does not wait.
func once(t *testing.T, l *loop.Loop) int {
	t.Helper()
	n, err := l.RunOnce(0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReaderAndWriterRunInOneTurn: one event, both directions.
func TestReaderAndWriterRunInOneTurn(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		write(fds[1], "x")
		order := ""
		if err := errors.Join(
			l.AddWriter(fds[0], func() { order += "w" }),
			l.AddReader(fds[0], func() { order += "r" }),
		); err != nil {
			t.Fatal(err)
		}
		if n := once(t, l); n != 2 || order != "rw" {
			t.Fatalf("%d callbacks, order %q", n, order)
		}
	})
}

// TestOnlyWhatWasAskedForIsTold hangs up, which is ready in both directions.
func TestOnlyWhatWasAskedForIsTold(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		for in, want := range map[loop.Interest]loop.Ready{
			loop.Read:              loop.Readable | loop.HangUp,
			loop.Write:             loop.Writable | loop.HangUp,
			loop.Read | loop.Write: loop.Readable | loop.Writable | loop.HangUp,
		} {
			l := newLoop(t, opts)
			fds := socketpair(t)
			syscall.Close(fds[1])
			var got loop.Ready
			if _, err := l.Watch(fds[0], in, loop.Level, func(r loop.Ready) { got = r }); err != nil {
				t.Fatal(err)
			}
			once(t, l)
			if got != want {
				t.Errorf("interest %b: ready %b, want %b", in, got, want)
			}
		}
		// A reader without a writer, and the other way round.
		l := newLoop(t, opts)
		a, b := socketpair(t), socketpair(t)
		syscall.Close(a[1])
		syscall.Close(b[1])
		order := ""
		l.AddReader(a[0], func() { order += "r" })
		l.AddWriter(b[0], func() { order += "w" })
		if n := once(t, l); n != 2 || len(order) != 2 {
			t.Errorf("%d callbacks, %q", n, order)
		}
	})
}

// TestFailureReachesWatch breaks a full pipe: there is an error and nothing else.
func TestFailureReachesWatch(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		var p [2]int
		if err := syscall.Pipe(p[:]); err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(p[1])
		syscall.SetNonblock(p[1], true)
		block := make([]byte, 64<<10)
		for {
			if _, err := syscall.Write(p[1], block); err != nil {
				break
			}
		}
		syscall.Close(p[0])
		var got loop.Ready
		w, err := l.Watch(p[1], loop.Write, loop.Level, func(r loop.Ready) { got = r })
		if err != nil {
			t.Fatal(err)
		}
		defer w.Cancel()
		once(t, l)
		if got&(loop.Writable|loop.Failed) != loop.Writable|loop.Failed || got&loop.Readable != 0 {
			t.Errorf("ready %b", got)
		}
	})
}

// TestInterestChangedWithinTheBatch has the first of two ready descriptors turn
// the other one around: it hears nothing of what was collected before, and then
// of the new direction.
func TestInterestChangedWithinTheBatch(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		var watches [2]loop.Watch
		var heard []loop.Ready
		for i := range watches {
			fds := socketpair(t)
			write(fds[1], "x")
			var err error
			watches[i], err = l.Watch(fds[0], loop.Read, loop.Level, func(r loop.Ready) {
				heard = append(heard, r)
				watches[i].Cancel()
				if err := watches[1-i].Modify(loop.Write, loop.Level); err != nil && len(heard) == 1 {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := once(t, l); n != 1 || heard[0] != loop.Readable {
			t.Fatalf("first turn: %d callbacks, %b", n, heard)
		}
		if n := once(t, l); n != 1 || heard[1] != loop.Writable {
			t.Fatalf("second turn: %d callbacks, %b", n, heard)
		}
	})
}

// TestRemovedHalfDoesNotWakeTheLoop: virtual time passes only in a wait.
func TestRemovedHalfDoesNotWakeTheLoop(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	fds := socketpair(t)
	if err := errors.Join(l.AddReader(fds[0], func() {}), l.AddWriter(fds[0], func() {})); err != nil {
		t.Fatal(err)
	}
	l.RemoveWriter(fds[0])
	if n, err := l.RunOnce(time.Hour); n != 0 || err != nil || v.now != time.Hour {
		t.Fatalf("%d callbacks, %v; waited %v", n, err, v.now)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestRefusedDescriptorsLeaveNothing would keep a row for each.
func TestRefusedDescriptorsLeaveNothing(t *testing.T) {
	l := newLoop(t, loop.Options{})
	before := heap()
	for range 50_000 {
		if err := l.AddReader(1<<20, func() {}); !errors.Is(err, syscall.EBADF) {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes are left", after-before)
	}
	runtime.KeepAlive(l)
}

// TestTimerSetAfterAPanicIsDueAtOnce: the phase in which a timer panicked is
// over, and what is set then is not for the phase after the next.
func TestTimerSetAfterAPanicIsDueAtOnce(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	l.CallLater(0, explode)
	for l.Stats().Panics == 0 {
		once(t, l)
	}
	ran := false
	l.CallLater(0, func() { ran = true })
	if once(t, l); !ran {
		t.Fatal("a timer that was due did not run")
	}
}

// scripted is a kernel that does in Wait and Close what the test says, and
// counts the goroutines it is asked to start.
type scripted struct {
	kernel.Poller
	kernel.Workers
	wait, close func() error
	started     int
}

func (s *scripted) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	if s.wait != nil {
		return 0, s.wait()
	}
	return s.Poller.Wait(events, timeout)
}

func (s *scripted) Close() error {
	s.Poller.Close()
	if s.close != nil {
		return s.close()
	}
	return nil
}

func (s *scripted) Start(work func()) { s.started++; s.Workers.Start(work) }

func newScripted(t *testing.T, opts loop.Options) (*loop.Loop, *scripted) {
	t.Helper()
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Poller: k.Poller, Workers: k.Workers}
	k.Poller, k.Workers = s, s
	opts = opts.WithKernel(k)
	l, err := loop.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, s
}

func TestKernelFailuresAreNamed(t *testing.T) {
	l, s := newScripted(t, loop.Options{})
	s.wait = func() error { return syscall.EBADF }
	s.close = func() error { return syscall.EIO }
	_, once := l.RunOnce(0)
	_, poll := l.Poll(0)
	for op, errs := range map[string][]error{
		"wait":  {l.Run(context.Background()), once, poll},
		"close": {l.Close()},
	} {
		for i, err := range errs {
			var e *loop.OpError
			if !errors.As(err, &e) || e.Op != op || !errors.Is(err, map[string]error{"wait": syscall.EBADF, "close": syscall.EIO}[op]) {
				t.Errorf("%s %d: %v", op, i, err)
			}
		}
	}
}

func TestPollTakesWhatCameWhileItWaited(t *testing.T) {
	l, s := newScripted(t, loop.Options{})
	s.wait = func() error { return l.Post(func() {}) }
	if n, err := l.Poll(time.Hour); n != 1 || err != nil {
		t.Fatalf("%d pending, %v", n, err)
	}
}

func TestWorkersAreStartedUpToTheLimit(t *testing.T) {
	l, s := newScripted(t, loop.Options{Workers: 2})
	release := make(chan struct{})
	defer close(release)
	for range 5 {
		loop.Offload(l, func() (int, error) { <-release; return 0, nil }, func(int, error) {})
	}
	if s.started != 2 {
		t.Errorf("%d workers, want 2", s.started)
	}
}
