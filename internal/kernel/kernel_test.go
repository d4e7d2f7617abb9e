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

func TestConformance(t *testing.T) {
	for _, name := range kernel.Backends() {
		t.Run(name, func(t *testing.T) {
			kerneltest.Run(t, kerneltest.Traits{Edges: name != "poll"}, func(tb testing.TB) *kernel.Kernel { return open(tb, name) })
		})
	}
}

func TestOpenPicksTheBest(t *testing.T) {
	for _, name := range []string{"", "auto"} {
		k := open(t, name)
		if k.Name() != kernel.Backends()[0] {
			t.Errorf("Open(%q) is %s, want %s", name, k.Name(), kernel.Backends()[0])
		}
		k.Close()
	}
}

func TestOpenUnknown(t *testing.T) {
	_, err := kernel.Open("abacus")
	if !errors.Is(err, kernel.ErrUnknownBackend) || !strings.Contains(err.Error(), "poll") {
		t.Fatalf("error %v does not say what there is", err)
	}
}

// TestRegularFilesAreRefused is here and not in the suite because a simulated
// kernel has no files.
func TestRegularFilesAreRefused(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range kernel.Backends() {
		k := open(t, name)
		if err := k.Add(int(f.Fd()), 1, kernel.Read, kernel.Level); err != syscall.EPERM {
			t.Errorf("%s: adding a file: %v, want EPERM", name, err)
		}
		k.Close()
	}
}

// TestWakesFromManyGoroutines counts: every wake is followed by a return of
// Wait that sees what was published before it. A lost wake-up hangs.
func TestWakesFromManyGoroutines(t *testing.T) {
	for _, name := range kernel.Backends() {
		t.Run(name, func(t *testing.T) {
			k := open(t, name)
			defer k.Close()
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
						<-ack[i] // the next only after Wait came back
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
}

// TestHotCallsDoNotAllocate holds the calls on the path of every request.
func TestHotCallsDoNotAllocate(t *testing.T) {
	for _, name := range kernel.Backends() {
		t.Run(name, func(t *testing.T) {
			k := open(t, name)
			defer k.Close()
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
				t.Fatalf("%v allocations", allocs)
			}
		})
	}
}
