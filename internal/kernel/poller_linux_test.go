package kernel

import (
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// forEachPoller runs test as a subtest on each backend.
func forEachPoller(t *testing.T, test func(t *testing.T, k *Kernel)) {
	for _, name := range Backends() {
		t.Run(name, func(t *testing.T) {
			k, err := Open(name)
			must(t, err)
			defer k.Close()
			test(t, k)
		})
	}
}

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// readyNow returns the events that are ready without waiting.
func readyNow(t *testing.T, k *Kernel) []Event {
	t.Helper()
	var events [8]Event
	n, err := k.Wait(events[:], 0)
	must(t, err)
	return events[:n]
}

func wantReady(t *testing.T, k *Kernel, want Ready) {
	t.Helper()
	if got := readyNow(t, k); len(got) != 1 || got[0].Ready != want {
		t.Errorf("events %v, want one with ready %v", got, want)
	}
}

// Pipes report an error or a hang-up alone; sockets report the direction as well.
func TestErrorsAreReportedInBothDirections(t *testing.T) {
	forEachPoller(t, func(t *testing.T, k *Kernel) {
		t.Run("error", func(t *testing.T) {
			r, w := pipe(t)
			block := make([]byte, 64<<10)
			for {
				if _, err := unix.Write(w, block); err != nil {
					break // full: not writable
				}
			}
			must(t, k.Add(w, 1, Write, Level))
			if got := readyNow(t, k); len(got) != 0 {
				t.Fatalf("events %v for a full pipe, want none", got)
			}
			unix.Close(r)
			wantReady(t, k, Readable|Writable|HangUp|Failed)
			must(t, k.Delete(w))
		})
		t.Run("hang-up", func(t *testing.T) {
			r, w := pipe(t)
			must(t, k.Add(r, 1, Write, Level))
			unix.Close(w)
			wantReady(t, k, Readable|Writable|HangUp)
			must(t, k.Delete(r))
		})
	})
}

// The test sends signals to the thread until its Wait, which has no timeout, returns.
func TestInterruptedWaitReturnsNoError(t *testing.T) {
	forEachPoller(t, func(t *testing.T, k *Kernel) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread := unix.Gettid()
		var returned atomic.Bool
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for !returned.Load() {
				// The Go runtime ignores a SIGURG that it did not send itself.
				unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
				runtime.Gosched()
			}
		}()
		var events [1]Event
		n, err := k.Wait(events[:], -1)
		returned.Store(true)
		<-stopped
		if n != 0 || err != nil {
			t.Errorf("Wait returned %d events, %v, want none", n, err)
		}
	})
}

// Deleting the first descriptor moves the fired one-shot into its row of poll's table.
func TestFiredOneShotSurvivesTheDeletionOfAnother(t *testing.T) {
	forEachPoller(t, func(t *testing.T, k *Kernel) {
		_, first := pipe(t)
		_, last := pipe(t)
		must(t, k.Add(first, 1, Write, Level))
		must(t, k.Add(last, 2, Write, OneShot))
		readyNow(t, k)
		must(t, k.Delete(first))
		if got := readyNow(t, k); len(got) != 0 {
			t.Errorf("events %v for a one-shot that had fired, want none", got)
		}
		must(t, k.Modify(last, 3, Write, OneShot))
		if got := readyNow(t, k); len(got) != 1 || got[0].Token != 3 {
			t.Errorf("events %v, want token 3", got)
		}
		must(t, k.Delete(last))
	})
}

// poll(2) itself reports a closed descriptor in every call.
func TestPollReportsAClosedDescriptorOnce(t *testing.T) {
	k, err := Open("poll")
	must(t, err)
	defer k.Close()
	r, _ := pipe(t)
	must(t, k.Add(r, 1, Read, Level))
	unix.Close(r)
	wantReady(t, k, Readable|Writable|HangUp|Failed)
	if got := readyNow(t, k); len(got) != 0 {
		t.Errorf("events %v in the second Wait, want none", got)
	}
}

// Linux before 5.11 has no epoll_pwait2.
func TestWaitWithoutPwait2(t *testing.T) {
	p, err := openEpoll()
	must(t, err)
	defer p.Close()
	p.(*epoll).noPwait2 = true
	var events [1]Event
	for _, timeout := range []time.Duration{1, time.Millisecond, 2*time.Millisecond + 1} {
		begin := time.Now()
		if n, err := p.Wait(events[:], timeout); n != 0 || err != nil {
			t.Errorf("Wait(%v) returned %d events, %v, want none", timeout, n, err)
		}
		if took := time.Since(begin); took < timeout {
			t.Errorf("Wait(%v) returned after %v", timeout, took)
		}
	}
}

func TestMillisNeverRoundDown(t *testing.T) {
	for timeout, want := range map[time.Duration]int{
		-1: -1, math.MinInt64: -1,
		0: 0, 1: 1,
		time.Millisecond - 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2,
		math.MaxInt64: math.MaxInt32,
	} {
		if got := millis(timeout); got != want {
			t.Errorf("millis(%d) = %d, want %d", timeout, got, want)
		}
	}
}

// The Python package polls the descriptor of an epoll instance from C. The waker's event that
// it fetches there must not be the last one.
func TestWakeAfterItsEventWasFetchedElsewhere(t *testing.T) {
	k, err := Open("epoll")
	must(t, err)
	defer k.Close()
	p := k.Poller.(*epoll)
	for range 3 {
		k.Wake()
		var events [8]unix.EpollEvent
		if n, err := unix.EpollWait(p.Share(), events[:], 0); n != 1 || err != nil {
			t.Fatalf("fetched %d events (%v), want the waker's", n, err)
		}
		p.Woken()
	}
	k.Wake()
	began := time.Now()
	var events [8]Event
	if _, err := k.Wait(events[:], time.Minute); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("Wait was not woken (%v)", err)
	}
}

// Other code that polls the instance takes events away, and only level-triggered watches report
// them again.
func TestSharedInstanceHasOnlyLevelTriggeredWatches(t *testing.T) {
	k, err := Open("epoll")
	must(t, err)
	defer k.Close()
	r, w := pipe(t)
	p := k.Poller.(*epoll)
	fd := p.Share()
	for _, mode := range []Mode{Edge, OneShot} {
		if err := k.Add(r, 1, Read, mode); err != errShared {
			t.Errorf("a watch of mode %v: %v", mode, err)
		}
	}
	must(t, k.Add(r, NewToken(1, 2), Read, Level))
	if err := k.Modify(r, NewToken(1, 2), Read, Edge); err != errShared {
		t.Errorf("a watch that becomes edge-triggered: %v", err)
	}
	_, err = unix.Write(w, []byte("x"))
	must(t, err)
	var fetched [8]unix.EpollEvent
	if n, err := unix.EpollWait(fd, fetched[:], 0); n != 1 || err != nil {
		t.Fatalf("fetched %d events (%v)", n, err)
	}
	var events [8]Event
	if n, err := k.Wait(events[:], 0); n != 1 || err != nil || events[0].Token.Row() != 1 || events[0].Token.Generation() != 2 {
		t.Errorf("%d events (%v): %+v; the one that was fetched elsewhere must come again", n, err, events[0])
	}
	p.Unshare()
	must(t, k.Modify(r, 1, Read, Edge))
}
