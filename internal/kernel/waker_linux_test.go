package kernel

import (
	"encoding/binary"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// count reads the eventfd: the sum of what was written to it.
func count(t *testing.T, w *waker) uint64 {
	t.Helper()
	var buf [8]byte
	if _, err := unix.Read(w.r, buf[:]); err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint64(buf[:])
}

func TestManyWakersWriteOnce(t *testing.T) {
	w, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for round := range 3 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					w.wake()
				}
			})
		}
		all.Wait()
		if n := count(t, w); n != 1 {
			t.Fatalf("round %d: %d writes for 800 wakes", round, n)
		}
		w.drained()
	}
}

func TestFullWakerCountsAsWoken(t *testing.T) {
	w, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var most [8]byte
	binary.NativeEndian.PutUint64(most[:], 1<<64-2) // one more does not fit
	if _, err := unix.Write(w.w, most[:]); err != nil {
		t.Fatal(err)
	}
	w.wake() // EAGAIN: must neither hang nor complain
	if n := count(t, w); n != 1<<64-2 {
		t.Fatalf("count %d", n)
	}
}

// TestWakeAfterCloseTouchesNobody gives the closed waker's number to somebody
// else and wakes.
func TestWakeAfterCloseTouchesNobody(t *testing.T) {
	w, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	number := w.w
	w.close()
	stranger, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.close()
	if stranger.w != number {
		t.Fatalf("the number %d was not reused but %d", number, stranger.w)
	}
	w.wake()
	w.armed.Store(false)
	w.wake()
	var buf [8]byte
	if _, err := unix.Read(stranger.r, buf[:]); err != unix.EAGAIN {
		t.Fatalf("a wake reached a stranger: %v", err)
	}
}
