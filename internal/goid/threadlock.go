package goid

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// ThreadLock says how a goroutine is locked to its thread: to which thread, and how
// many times by runtime.LockOSThread and by callbacks from C. The zero ThreadLock is
// that of a goroutine that is not locked. The runtime ends the process if a coroutine is
// resumed under another ThreadLock than the one it was made under.
type ThreadLock struct {
	thread uintptr
	counts lockCounts
}

// lockCounts is two neighbouring fields of the runtime's m.
type lockCounts struct {
	external uint32 // calls of runtime.LockOSThread
	internal uint32 // callbacks from C, and package initialization
}

// Locked reports whether the goroutine is locked.
func (t ThreadLock) Locked() bool { return t.thread != 0 }

// LockOf returns the ThreadLock of the calling goroutine, which Current identified.
func LockOf(current uintptr) ThreadLock {
	thread := *LockWord(current)
	if thread == 0 {
		return ThreadLock{}
	}
	return ThreadLock{thread, countsOf(thread)}
}

func countsOf(thread uintptr) lockCounts {
	place := findCounts()
	if place < 0 {
		return lockCounts{}
	}
	return *atThread(thread, place)
}

// Restore locks or unlocks the calling goroutine until its ThreadLock is t again, and
// reports whether it is. It fails inside a callback from C that t does not count, because
// only the end of the callback releases that lock. It can also fail if the goroutine was
// unlocked and has moved to another thread since: it tries to get back to the first one.
func (t ThreadLock) Restore() bool {
	g := Current()
	for range restoreTries {
		now := LockOf(g)
		switch {
		case now == t:
			return true
		case !now.Locked():
			runtime.LockOSThread()
			if *LockWord(g) != t.thread {
				runtime.UnlockOSThread()
				runtime.Gosched()
			}
		case now.thread == t.thread && now.counts.external < t.counts.external:
			runtime.LockOSThread()
		case findCounts() >= 0 && now.counts.external == 0,
			now.thread == t.thread && now.counts.external == t.counts.external:
			return false // the locks that differ are internal
		default:
			runtime.UnlockOSThread()
		}
	}
	return false
}

// restoreTries bounds how often Restore unlocks, or looks for its thread.
const restoreTries = 1 << 16

// LockWord returns a word of the goroutine that Current identified. It is zero unless the
// goroutine is locked to its thread, and then it identifies the thread. Only that
// goroutine may read it. Where the word was not found, and for no goroutine, the result
// is always zero.
func LockWord(current uintptr) *uintptr {
	place := findLock()
	if place < 0 || current == 0 {
		return &neverLocked
	}
	return at[uintptr](current, place)
}

var neverLocked uintptr

// witnesses is how many goroutines a place is checked on.
const witnesses = 4

// findLock returns the offset in a g of its lockedm: a word that is zero unless the
// goroutine is locked. It is negative if it was not found. It looks when first called, not
// when the program starts: locking a thread makes the runtime start one more.
var findLock = sync.OnceValue(func() int {
	return FindWord(func(is func(set bool)) {
		is(false)
		runtime.LockOSThread()
		is(true)
		runtime.UnlockOSThread()
		is(false)
	})
})

// searchedThread is how many bytes of an m are looked at. An m is larger in every Go so
// far.
const searchedThread = 1024

// findCounts returns the offset in an m of its lockCounts, negative if it was not found.
var findCounts = sync.OnceValue(func() int {
	const step = int(unsafe.Sizeof(uint32(0)))
	if findLock() < 0 {
		return -1
	}
	var suspects []int
	for i := range searchedThread/step - 1 {
		suspects = append(suspects, i*step)
	}
	keep := func(want lockCounts) {
		thread := *LockWord(Current())
		suspects = slices.DeleteFunc(suspects, func(place int) bool {
			return *atThread(thread, place) != want
		})
	}
	for range witnesses {
		unlocked(func() {
			for n := range uint32(3) {
				runtime.LockOSThread()
				keep(lockCounts{external: n + 1})
			}
			for n := range uint32(3) {
				keep(lockCounts{external: 3 - n})
				runtime.UnlockOSThread()
			}
		})
	}
	return only(suspects)
})

// unlocked runs fn on a goroutine that is not locked, as the caller may be.
func unlocked(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

// only returns the one element that is left, or -1.
func only(places []int) int {
	if len(places) != 1 {
		return -1
	}
	return places[0]
}

// atThread returns a place in the m of the calling goroutine.
//
//go:nocheckptr
func atThread(thread uintptr, place int) *lockCounts {
	return (*lockCounts)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&thread)), place))
}
