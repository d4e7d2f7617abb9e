package kernel

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// count reads the eventfd and returns the sum of the values written to it.
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
			t.Fatalf("round %d: 800 wakes made %d writes, want 1", round, n)
		}
		w.reset()
	}
}

func TestFullWakerCountsAsWoken(t *testing.T) {
	w, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var most [8]byte
	binary.NativeEndian.PutUint64(most[:], 1<<64-2) // the largest value
	if _, err := unix.Write(w.w, most[:]); err != nil {
		t.Fatal(err)
	}
	w.wake() // EAGAIN: must neither block nor fail
	if n := count(t, w); n != 1<<64-2 {
		t.Fatalf("the eventfd holds %d, want 1<<64-2", n)
	}
}

// A second waker gets the closed waker's descriptor number.
func TestWakeAfterCloseWritesToNoOtherDescriptor(t *testing.T) {
	w, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	number := w.w
	w.close()
	other, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if other.w != number {
		t.Fatalf("the second waker has number %d, want the reused %d", other.w, number)
	}
	w.wake()
	w.armed.Store(false)
	w.wake()
	var buf [8]byte
	if _, err := unix.Read(other.r, buf[:]); err != unix.EAGAIN {
		t.Fatalf("a closed waker wrote to another descriptor: read error %v, want EAGAIN", err)
	}
}

// The test wakes continuously during a drain. A full pipe, as wakers on the BSDs have
// it, makes the drain long. Afterwards an armed waker must be readable: if it is not,
// no later wake can make Wait return.
func TestWakeDuringDrainIsNotLost(t *testing.T) {
	r, wr := pipe(t)
	w := &waker{r: r, w: wr}
	block := make([]byte, 1<<20)
	for round := range 20 {
		w.armed.Store(true)
		unix.Write(w.w, block)
		var drained atomic.Bool
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for !drained.Load() {
				w.wake()
			}
		}()
		w.drain()
		drained.Store(true)
		<-stopped
		var buf [8]byte
		if n, _ := unix.Read(w.r, buf[:]); w.armed.Load() && n <= 0 {
			t.Fatalf("round %d: the waker is armed but not readable", round)
		}
	}
}

func TestSecondCloseOfAWakerClosesNothing(t *testing.T) {
	w, err := newWaker()
	must(t, err)
	w.close()
	other, err := newWaker()
	must(t, err)
	defer other.close()
	w.close()
	if _, err := unix.FcntlInt(uintptr(other.r), unix.F_GETFD, 0); err != nil {
		t.Errorf("the second close closed another descriptor: %v", err)
	}
}
