package goid_test

import (
	"iter"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/internal/goid"
)

func TestCurrentTellsGoroutinesApart(t *testing.T) {
	mine := goid.Current()
	for range 1000 {
		runtime.Gosched() // may come back on another thread
		if goid.Current() != mine {
			t.Fatal("changed within one goroutine")
		}
	}
	other := make(chan uintptr)
	go func() { other <- goid.Current() }()
	if got := <-other; got == mine || got == 0 {
		t.Fatalf("another goroutine has %x, this one %x", got, mine)
	}
}

func TestCoroutineIsItsOwn(t *testing.T) {
	next, stop := iter.Pull(func(yield func(uintptr) bool) { yield(goid.Current()) })
	defer stop()
	if got, _ := next(); got == goid.Current() {
		t.Fatal("a coroutine has its creator's identity")
	}
}

func TestNumber(t *testing.T) {
	mine := goid.Number()
	other := make(chan uint64)
	go func() { other <- goid.Number() }()
	if got := <-other; mine == 0 || got == 0 || got == mine {
		t.Fatalf("numbers %d and %d", mine, got)
	}
}

func TestNumberOf(t *testing.T) {
	if got, want := goid.NumberOf(goid.Current()), goid.Number(); got != want {
		t.Fatalf("NumberOf is %d, want %d", got, want)
	}
	type ids struct {
		g      uintptr
		number uint64
	}
	other, done := make(chan ids), make(chan struct{})
	go func() { other <- ids{goid.Current(), goid.Number()}; <-done }()
	defer close(done)
	if o := <-other; goid.NumberOf(o.g) != o.number {
		t.Fatalf("NumberOf another is %d, want %d", goid.NumberOf(o.g), o.number)
	}
	if goid.NumberOf(0) != 0 {
		t.Fatal("the zero goroutine has a number")
	}
}

func TestLockWord(t *testing.T) {
	locked := make(chan bool)
	go func() {
		word := goid.LockWord(goid.Current())
		locked <- *word != 0
		runtime.LockOSThread()
		locked <- *word != 0
		runtime.LockOSThread()
		runtime.UnlockOSThread()
		locked <- *word != 0
		runtime.UnlockOSThread()
		locked <- *word != 0
	}()
	for _, want := range []bool{false, true, true, false} {
		if got := <-locked; got != want {
			t.Errorf("it is locked: %v, want %v", got, want)
		}
	}
}

func BenchmarkCurrent(b *testing.B) {
	for b.Loop() {
		goid.Current()
	}
}

// grow makes the stack grow to n frames of a kilobyte, asking in each.
func grow(n int, ask func()) byte {
	var frame [1024]byte
	ask()
	if n > 0 {
		frame[n%len(frame)] = grow(n-1, ask)
	}
	return frame[0]
}

func TestHere(t *testing.T) {
	mine := goid.Current()
	grow(64, func() {
		if !goid.Here(mine) {
			t.Fatal("a goroutine is not taken for itself")
		}
	})
	next, stop := iter.Pull(func(yield func(bool) bool) { yield(goid.Here(mine)) })
	defer stop()
	if here, _ := next(); here {
		t.Fatal("a coroutine is taken for its creator")
	}
	others := make(chan bool)
	for range 100 {
		go func() {
			grow(64, func() { others <- goid.Here(mine) })
			close(others)
		}()
		for here := range others {
			if here {
				t.Fatal("another goroutine is taken for this one")
			}
		}
		others = make(chan bool)
	}
}

// TestLockOf: a ThreadLock differs by the number of locks, and Restore brings an earlier
// one back.
func TestLockOf(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		now := func() goid.ThreadLock { return goid.LockOf(goid.Current()) }
		free := now()
		runtime.LockOSThread()
		once := now()
		runtime.LockOSThread()
		runtime.LockOSThread()
		thrice := now()
		if free.Locked() || !once.Locked() || once == thrice {
			t.Errorf("unlocked %+v, locked once %+v, three times %+v", free, once, thrice)
		}
		for _, want := range []goid.ThreadLock{once, thrice, free, thrice, once, free} {
			if !want.Restore() || now() != want {
				t.Errorf("%+v is not restored to %+v", now(), want)
			}
		}
	}()
	<-done
}

// TestLockOfInitialization: the runtime locks the goroutine that initializes packages by
// itself, and Restore cannot undo that.
func TestLockOfInitialization(t *testing.T) {
	if !lockedByInit.Locked() || unlockedByInit {
		t.Errorf("initialization runs under %+v, and Restore could undo that: %v", lockedByInit, unlockedByInit)
	}
}

var (
	lockedByInit   = goid.LockOf(goid.Current())
	unlockedByInit = goid.ThreadLock{}.Restore()
)
