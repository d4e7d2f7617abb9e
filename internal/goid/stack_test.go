package goid_test

import (
	"iter"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/until"
)

// blocked is what a goroutine blocks on.
type blocked struct {
	done chan struct{}
	stop atomic.Bool
	mu   sync.Mutex
	r, w *os.File
	sum  int
}

func newBlocked(t *testing.T) *blocked {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Fd() // its reads block from now on
	b := &blocked{done: make(chan struct{}), r: r, w: w}
	b.mu.Lock()
	return b
}

// end lets the goroutine continue, whatever it blocks on.
func (b *blocked) end() {
	close(b.done)
	b.stop.Store(true)
	b.mu.Unlock()
	b.w.Close()
}

//go:noinline
func (b *blocked) leaf(i int) { b.sum += i }

//go:noinline
func (b *blocked) framed(i int) int {
	var local [64]int
	local[i%64] = i
	b.leaf(local[(i+1)%64])
	return local[i%64]
}

var blockers = []struct {
	name  string
	block func(b *blocked)
	inner string // a function on the stack
}{
	{"a channel", func(b *blocked) { <-b.done }, "init."},
	{"a mutex", func(b *blocked) { b.mu.Lock() }, "init."},
	{"a system call", func(b *blocked) { b.r.Read(make([]byte, 1)) }, "init."},
	{"a loop without calls", func(b *blocked) {
		for !b.stop.Load() {
			b.sum++
		}
	}, "init."},
	{"a loop of calls", func(b *blocked) {
		for i := 0; !b.stop.Load(); i++ {
			b.framed(i)
		}
	}, "init."},
	{"a loop of calls of leaf functions", func(b *blocked) {
		for i := 0; !b.stop.Load(); i++ {
			b.leaf(i)
		}
	}, "init."},
	{"allocations", func(b *blocked) {
		for !b.stop.Load() {
			b.sum += len(make([]byte, b.sum%4096+1))
		}
	}, "init."},
	{"a switch to a coroutine", func(b *blocked) {
		next, stop := iter.Pull(func(yield func(int) bool) {
			for yield(1) {
			}
		})
		defer stop()
		for !b.stop.Load() {
			next()
		}
	}, "init."},
}

// TestCheapStackOf: it has the functions of the goroutine, in order, if the goroutine waits
// and if it runs, among few goroutines and among many.
func TestCheapStackOf(t *testing.T) {
	release := make(chan struct{})
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer close(release)
	for _, among := range []int{0, goid.CheapStackLimit + 1} {
		if among > 0 && !goid.CanPeek {
			return
		}
		for range among {
			crowd.Go(func() { <-release })
		}
		for _, how := range blockers {
			b := newBlocked(t)
			id := make(chan uintptr)
			var ended sync.WaitGroup
			ended.Go(func() { outer(b, func() { id <- goid.Current() }, how.block) })
			g := <-id
			until.Holds(t, func() bool { return strings.Contains(string(goid.CheapStackOf(g)), "goid_test."+how.inner) })
			for range 20 {
				stack := string(goid.CheapStackOf(g))
				inner, rest, ok1 := strings.Cut(stack, "goid_test.outer(")
				_, _, ok2 := strings.Cut(rest, "goid_test.TestCheapStackOf.")
				if !ok1 || !ok2 || !strings.Contains(inner, "goid_test."+how.inner) || goid.NumberIn([]byte(stack)) != goid.NumberOf(g) {
					t.Errorf("%s, among %d:\n%s", how.name, among, stack)
				}
			}
			b.end()
			ended.Wait()
		}
	}
}

//go:noinline
func outer(b *blocked, begun func(), block func(b *blocked)) {
	begun()
	block(b)
	runtime.KeepAlive(b)
}
