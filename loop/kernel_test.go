package loop_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// scripted is a kernel with functions of the test as Wait and Close. It counts the
// goroutines that it starts.
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
	opts = loop.Internal().WithKernel(opts, k)
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
			if err == nil || !strings.HasPrefix(err.Error(), "loop: "+op+": ") || !errors.Is(err, map[string]error{"wait": syscall.EBADF, "close": syscall.EIO}[op]) {
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
