// Package goid tells goroutines apart: which one is calling, in two
// nanoseconds, so that a call from the wrong goroutine can be named instead of
// corrupting what it touches.
package goid

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// Number is the calling goroutine's number as a stack trace prints it
// ("goroutine 7"). It takes a microsecond: ask once and keep it.
func Number() uint64 {
	var buf [64]byte
	return NumberIn(buf[:runtime.Stack(buf[:], false)])
}

// NumberOf is the number of a goroutine that Current identified and that is
// still alive; 0 if it cannot be told. It is for diagnostics: it reads the
// number out of the runtime's g, at a place that it finds by looking for known
// numbers in the gs of goroutines it starts.
func NumberOf(current uintptr) uint64 {
	if current == 0 {
		return 0
	}
	if !isPointer {
		return uint64(current) - 1
	}
	place := findNumber()
	if place < 0 {
		return 0
	}
	return *at[uint64](current, place)
}

// searched is how many bytes of a g are looked at: the number lies within them
// in every Go so far.
const searched = 320

// at is a word of a g. The g is there as long as its goroutine runs.
func at[W uint64 | uintptr](g uintptr, place int) *W {
	return (*W)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&g)), place))
}

var findNumber = sync.OnceValue(func() int {
	const step = 4
	found := make([]int, searched/step)
	var all sync.WaitGroup
	var mu sync.Mutex
	for range witnesses {
		all.Go(func() {
			g, number := Current(), Number()
			mu.Lock()
			defer mu.Unlock()
			for i := range found {
				if *at[uint64](g, i*step) == number {
					found[i]++
				}
			}
		})
	}
	all.Wait()
	if i := slices.Index(found, witnesses); i >= 0 {
		return i * step
	}
	return -1
})
