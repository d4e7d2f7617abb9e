package kernel_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/kernel/kerneltest"
)

func open(tb testing.TB, name string) *kernel.Kernel {
	tb.Helper()
	k, err := kernel.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// forEachBackend runs test as a subtest on each backend.
func forEachBackend(t *testing.T, test func(t *testing.T, k *kernel.Kernel)) {
	for _, name := range kernel.Backends() {
		t.Run(name, func(t *testing.T) {
			k := open(t, name)
			defer k.Close()
			test(t, k)
		})
	}
}

func TestConformance(t *testing.T) {
	for _, name := range kernel.Backends() {
		t.Run(name, func(t *testing.T) {
			kerneltest.Run(t, kerneltest.Traits{Edges: name != "poll"}, func(tb testing.TB) *kernel.Kernel { return open(tb, name) })
		})
	}
}

func TestOpenSelectsTheBestBackend(t *testing.T) {
	for _, name := range []string{"", "auto"} {
		k := open(t, name)
		if k.Name() != kernel.Backends()[0] {
			t.Errorf("Open(%q) opened %s, want %s", name, k.Name(), kernel.Backends()[0])
		}
		k.Close()
	}
}

func TestOpenOfAnUnknownBackendNamesTheKnownOnes(t *testing.T) {
	_, err := kernel.Open("abacus")
	if !errors.Is(err, kernel.ErrUnknownBackend) || !strings.Contains(err.Error(), "poll") {
		t.Fatalf("error %v, want ErrUnknownBackend with the names of the backends", err)
	}
}

// This test is not in the conformance suite because a simulated kernel has no files.
func TestRegularFilesAreRefused(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	forEachBackend(t, func(t *testing.T, k *kernel.Kernel) {
		if err := k.Add(int(f.Fd()), 1, kernel.Read, kernel.Level); err != syscall.EPERM {
			t.Errorf("Add of a regular file: %v, want EPERM", err)
		}
	})
}

// After every Wake, a Wait returns and sees what the goroutine published before it. A
// lost wake-up hangs the test.
func TestWakesFromManyGoroutinesAreNotLost(t *testing.T) {
	forEachBackend(t, func(t *testing.T, k *kernel.Kernel) {
		const wakers, each = 4, 2000
		var mu sync.Mutex
		published := 0
		ack := make([]chan struct{}, wakers)
		var all sync.WaitGroup
		for i := range ack {
			ack[i] = make(chan struct{}, 1)
			all.Go(func() {
				for range each {
					mu.Lock()
					published++
					mu.Unlock()
					k.Wake()
					<-ack[i] // the next Wake follows the return of Wait
				}
			})
		}
		var events [4]kernel.Event
		for seen := 0; seen < wakers*each; {
			if _, err := k.Wait(events[:], -1); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			seen = published
			mu.Unlock()
			for _, ch := range ack {
				select {
				case ch <- struct{}{}:
				default:
				}
			}
		}
		for _, ch := range ack {
			close(ch)
		}
		all.Wait()
	})
}

func TestCallsOnTheRequestPathDoNotAllocate(t *testing.T) {
	forEachBackend(t, func(t *testing.T, k *kernel.Kernel) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			syscall.SetNonblock(fd, true)
			defer syscall.Close(fd)
		}
		if err := k.Add(fds[0], 1, kernel.Read, kernel.Edge); err != nil {
			t.Fatal(err)
		}
		events := make([]kernel.Event, 8)
		buf := make([]byte, 64)
		allocs := testing.AllocsPerRun(100, func() {
			k.Send(fds[1], buf)
			k.Wait(events, -1)
			k.Recv(fds[0], buf)
			k.Recv(fds[0], buf) // EAGAIN
			k.Wait(events, 0)
			k.Wait(events, 1)
		})
		if allocs != 0 {
			t.Fatalf("%v allocations, want 0", allocs)
		}
	})
}
