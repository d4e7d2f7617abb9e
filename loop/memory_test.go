package loop_test

import (
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
)

// TestMemoryIsFreedAfterAFlood schedules many callbacks by CallSoon and by Post, and then
// waits.
func TestMemoryIsFreedAfterAFlood(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	nop := func() {}
	before := heap()
	for range 2 {
		for range short.Of(1 << 18) {
			l.CallSoon(nop)
			l.Post(nop)
		}
		l.Post(func() { l.CallLater(time.Second, l.Stop) })
		run(t, l)
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes more than before", after-before)
	}
	runtime.KeepAlive(l)
}

// TestCallbacksThatRanAreFree: the loop keeps no reference to them.
func TestCallbacksThatRanAreFree(t *testing.T) {
	l := newLoop(t, loop.Options{})
	freed := make(chan string, 2)
	for name, schedule := range map[string]func(func()){
		"CallSoon": func(fn func()) { l.CallSoon(fn) },
		"Post":     func(fn func()) { l.Post(fn) },
	} {
		func() {
			held := new([1 << 16]byte)
			runtime.AddCleanup(held, func(name string) { freed <- name }, name)
			schedule(func() { held[0]++ })
		}()
		once(t, l)
		runtime.GC()
		if got := <-freed; got != name { // hangs if it is kept
			t.Errorf("freed %s", got)
		}
	}
	runtime.KeepAlive(l)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestRefusedDescriptorsTakeNoMemory: no row is kept for them.
func TestRefusedDescriptorsTakeNoMemory(t *testing.T) {
	l := newLoop(t, loop.Options{})
	before := heap()
	for range 50_000 {
		if err := l.AddReader(1<<20, func() {}); !errors.Is(err, syscall.EBADF) {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes more than before", after-before)
	}
	runtime.KeepAlive(l)
}

func TestNothingAllocatesInSteadyState(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	write(fds[1], "x")
	nop := func() {}
	watched := func(loop.Ready) {}
	turn := func() {
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
	}
	for name, op := range map[string]func(){
		"CallSoon":         func() { l.CallSoon(nop); turn() },
		"CallSoon, cancel": func() { l.CallSoon(nop).Cancel(); turn() },
		"CallSoonPriority": func() { l.CallSoonPriority(loop.Low, nop); turn() },
		"CallLater, fire":  func() { l.CallLater(0, nop); turn(); turn() },
		"CallLater, cancel": func() {
			for range 100 {
				l.CallLater(time.Minute, nop).Cancel()
			}
		},
		"Post": func() { l.Post(nop); turn() },
		"AddReader, dispatch, RemoveReader": func() {
			l.AddReader(fds[0], nop)
			turn()
			l.RemoveReader(fds[0])
		},
		"Watch, dispatch, Cancel": func() {
			w, _ := l.Watch(fds[0], loop.Readable|loop.Writable, loop.Edge, watched)
			turn()
			w.Modify(loop.Readable, loop.OneShot)
			turn()
			w.Cancel()
		},
		"Poll, Pending": func() {
			l.CallSoon(nop)
			l.Poll(0)
			for _, p := range l.Pending() {
				p.Run()
			}
		},
	} {
		for range 3000 { // past every first growth
			op()
		}
		if n := testing.AllocsPerRun(200, op); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
