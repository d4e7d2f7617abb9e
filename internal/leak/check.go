package leak

import (
	"os"
	"runtime"
	"testing"
)

// Check fails t if something is left when t has ended: descriptors, goroutines,
// temporary files, or memory beyond slack bytes. Call it first, so that it looks after
// all other cleanups. It is for tests that are not parallel.
func Check(t testing.TB, slack uint64) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	temporary := os.TempDir()
	open, running, used := len(descriptors()), len(otherGoroutines()), inUse()
	t.Cleanup(func() {
		if n := remainingGoroutines(running); n > running {
			t.Errorf("leak: %d goroutines, %d before", n, running)
		}
		if n := len(remainingDescriptors(open)); n > open {
			t.Errorf("leak: %d descriptors, %d before", n, open)
		}
		if files, err := os.ReadDir(temporary); err != nil || len(files) > 0 {
			t.Errorf("leak: temporary files %v, %v", files, err)
		}
		var now uint64
		untilGrace(func() bool { // what a finalizer or a cleanup releases takes another collection
			now = inUse()
			return now <= used+slack
		})
		if now > used+slack {
			t.Errorf("leak: %d bytes of memory, %d before", now, used)
		}
	})
}

// remainingGoroutines returns how many goroutines run when there are want or fewer, or
// after grace.
func remainingGoroutines(want int) int {
	n := 0
	untilGrace(func() bool {
		n = len(otherGoroutines())
		return n <= want
	})
	return n
}

// inUse returns the bytes in use when nothing is left to collect. Pools and finalizers
// take two collections.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
