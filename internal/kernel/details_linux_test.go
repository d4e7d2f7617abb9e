//go:build linux

package kernel

import (
	"math"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
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

func everyPoller(t *testing.T, test func(t *testing.T, k *Kernel)) {
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

// look is what one look finds ready.
func look(t *testing.T, k *Kernel) []Event {
	t.Helper()
	var events [8]Event
	n, err := k.Wait(events[:], 0)
	must(t, err)
	return events[:n]
}

func wantReady(t *testing.T, k *Kernel, want Ready) {
	t.Helper()
	if got := look(t, k); len(got) != 1 || got[0].Ready != want {
		t.Errorf("events %v, want one that is ready %b", got, want)
	}
}

// TestErrorsReachTheDirectionAskedFor uses pipes because they report an error
// or a hang-up alone, where sockets set the direction as well.
func TestErrorsReachTheDirectionAskedFor(t *testing.T) {
	everyPoller(t, func(t *testing.T, k *Kernel) {
		t.Run("error", func(t *testing.T) {
			r, w := pipe(t)
			block := make([]byte, 64<<10)
			for {
				if _, err := unix.Write(w, block); err != nil {
					break // full: not writable
				}
			}
			must(t, k.Add(w, 1, Write, Level))
			if got := look(t, k); len(got) != 0 {
				t.Fatalf("a full pipe: %v", got)
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

// TestSignalIsNoError interrupts a wait without end until it returns.
func TestSignalIsNoError(t *testing.T) {
	everyPoller(t, func(t *testing.T, k *Kernel) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread := unix.Gettid()
		var back atomic.Bool
		quiet := make(chan struct{})
		go func() {
			defer close(quiet)
			for !back.Load() {
				unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // Go's own; it ignores strangers
				runtime.Gosched()
			}
		}()
		var events [1]Event
		n, err := k.Wait(events[:], -1)
		back.Store(true)
		<-quiet
		if n != 0 || err != nil {
			t.Errorf("%d events, %v", n, err)
		}
	})
}

// TestSilencedOneShotSurvivesItsNeighbour deletes a descriptor so that one
// that has fired takes its place.
func TestSilencedOneShotSurvivesItsNeighbour(t *testing.T) {
	everyPoller(t, func(t *testing.T, k *Kernel) {
		_, first := pipe(t)
		_, last := pipe(t)
		must(t, k.Add(first, 1, Write, Level))
		must(t, k.Add(last, 2, Write, OneShot))
		look(t, k)
		must(t, k.Delete(first))
		if got := look(t, k); len(got) != 0 {
			t.Errorf("events %v of a one-shot that had fired", got)
		}
		must(t, k.Modify(last, 3, Write, OneShot))
		if got := look(t, k); len(got) != 1 || got[0].Token != 3 {
			t.Errorf("events %v, want token 3", got)
		}
		must(t, k.Delete(last))
	})
}

// TestClosedDescriptorDoesNotSpin is for poll(2), which goes on reporting it.
func TestClosedDescriptorDoesNotSpin(t *testing.T) {
	k, err := Open("poll")
	must(t, err)
	defer k.Close()
	r, _ := pipe(t)
	must(t, k.Add(r, 1, Read, Level))
	unix.Close(r)
	wantReady(t, k, Readable|Writable|HangUp|Failed)
	if got := look(t, k); len(got) != 0 {
		t.Errorf("events %v again", got)
	}
}

// TestWaitWithoutPwait2 is the way of kernels before 5.11.
func TestWaitWithoutPwait2(t *testing.T) {
	p, err := openEpoll()
	must(t, err)
	defer p.Close()
	p.(*epoll).noPwait = true
	var events [1]Event
	for _, timeout := range []time.Duration{1, time.Millisecond, 2*time.Millisecond + 1} {
		begin := time.Now()
		if n, err := p.Wait(events[:], timeout); n != 0 || err != nil {
			t.Errorf("%d events, %v", n, err)
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

// TestWakeDuringDrainIsNotLost wakes all the time while a drain is under way,
// which is made long by a full pipe, as wakers on the BSDs have it. A waker that
// says it is armed must be readable: nothing would ever wake it again.
func TestWakeDuringDrainIsNotLost(t *testing.T) {
	r, wr := pipe(t)
	w := &waker{r: r, w: wr}
	block := make([]byte, 1<<20)
	for round := range 20 {
		w.armed.Store(true)
		unix.Write(w.w, block)
		var drained atomic.Bool
		quiet := make(chan struct{})
		go func() {
			defer close(quiet)
			for !drained.Load() {
				w.wake()
			}
		}()
		w.drain()
		drained.Store(true)
		<-quiet
		var buf [8]byte
		if n, _ := unix.Read(w.r, buf[:]); w.armed.Load() && n <= 0 {
			t.Fatalf("round %d: armed, and nothing to see for Wait", round)
		}
	}
}

func TestWakerClosesItsNumberOnce(t *testing.T) {
	w, err := newWaker()
	must(t, err)
	w.close()
	stranger, err := newWaker()
	must(t, err)
	defer stranger.close()
	w.close()
	if _, err := unix.FcntlInt(uintptr(stranger.r), unix.F_GETFD, 0); err != nil {
		t.Errorf("the second close closed a stranger: %v", err)
	}
}

// TestSocketsAreNonBlockingAndPrivate looks at the flags themselves: a blocking
// call would hang the test, and a leak to a child shows nowhere.
func TestSocketsAreNonBlockingAndPrivate(t *testing.T) {
	var s sockets
	listener, err := s.Socket(Unix, Stream)
	must(t, err)
	defer s.CloseFD(listener)
	// An abstract name, once by its NUL and once by the way it is printed.
	name := "spindle/" + t.Name() + "/" + time.Now().String()
	must(t, s.Bind(listener, Addr{Path: "\x00" + name}))
	must(t, s.Listen(listener, 1))
	client, err := s.Socket(Unix, Stream)
	must(t, err)
	defer s.CloseFD(client)
	must(t, s.Connect(client, Addr{Path: "@" + name}))
	server, err := s.Accept(listener)
	must(t, err)
	defer s.CloseFD(server)
	for what, fd := range map[string]int{"listener": listener, "client": client, "accepted": server} {
		if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); flags&unix.O_NONBLOCK == 0 {
			t.Errorf("%s: blocking", what)
		}
		if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: a child would inherit it", what)
		}
	}
	// Each side that is shut down is the one that was named.
	must(t, s.Shutdown(client, ReadSide))
	if _, err := s.Send(client, []byte("x")); err != nil {
		t.Errorf("send after a shutdown of the reading side: %v", err)
	}
	var buf [8]byte
	if n, err := s.Recv(server, buf[:]); err != nil || string(buf[:n]) != "x" {
		t.Errorf("received %q, %v", buf[:n], err)
	}
	// No call raises SIGPIPE. Signals arrive in the order of their numbers, so
	// that one with a higher number shows that there was none.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGPIPE, syscall.SIGWINCH)
	defer signal.Stop(signals)
	s.CloseFD(server)
	for what, send := range map[string]func() (int, error){
		"Send":   func() (int, error) { return s.Send(client, buf[:]) },
		"Sendv":  func() (int, error) { return s.Sendv(client, [][]byte{buf[:]}) },
		"SendTo": func() (int, error) { return s.SendTo(client, buf[:], Addr{}) },
	} {
		if _, err := send(); err != unix.EPIPE {
			t.Errorf("%s: %v, want EPIPE", what, err)
		}
	}
	must(t, unix.Kill(os.Getpid(), unix.SIGWINCH))
	if sig := <-signals; sig != syscall.SIGWINCH {
		t.Errorf("signal %v", sig)
	}
}

// TestZonesAreKept goes to the system's form and back.
func TestZonesAreKept(t *testing.T) {
	for _, ip := range []string{"fe80::1%lo", "fe80::1%424242", "fe80::1"} {
		a := Addr{AddrPort: netip.AddrPortFrom(netip.MustParseAddr(ip), 7)}
		sa, err := sockaddr(a)
		must(t, err)
		if got := addrOf(sa); got != a {
			t.Errorf("%v came back as %v", a, got)
		}
	}
}
