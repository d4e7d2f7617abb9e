package transport_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// virtual is a kernel whose clock stands still, except that a wait for a timer
// jumps to it. Descriptors are real.
type virtual struct {
	kernel.Poller
	now time.Duration
}

func (v *virtual) Mono() time.Duration           { return v.now }
func (v *virtual) Wall() time.Time               { return time.Unix(0, 0).Add(v.now) }
func (*virtual) At(mono time.Duration) time.Time { return time.Unix(0, 0).Add(mono) }

func (v *virtual) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	n, err := v.Poller.Wait(events, min(timeout, 0))
	if n == 0 && timeout > 0 {
		v.now += timeout
	}
	return n, err
}

// inVirtualTime runs a test on a loop of each poller, under virtual time, with a
// socket of which the test has the far end.
func inVirtualTime(t *testing.T, test func(t *testing.T, l *loop.Loop, v *virtual, near, far int)) {
	for _, backend := range []string{"auto", "poll"} {
		t.Run(backend, func(t *testing.T) {
			k, err := kernel.Open(backend)
			if err != nil {
				t.Fatal(err)
			}
			v := &virtual{Poller: k.Poller}
			k.Poller, k.Clock = v, v
			l, err := loop.New(loop.Options{Kernel: k, Watchdog: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(p[0])
			defer syscall.Close(p[1])
			test(t, l, v, p[0], p[1])
		})
	}
}

// timesOut ends the loop when the connection is lost, which must be at a time, for
// want of an operation.
func timesOut(t *testing.T, l *loop.Loop, op string, at time.Duration) func(*transport.Conn, error) {
	return func(_ *transport.Conn, err error) {
		var e *net.OpError
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &e) || e.Op != op || !e.Timeout() {
			t.Errorf("lost with %v, want a time-out of a %s", err, op)
		}
		if l.Time() != at {
			t.Errorf("lost after %v, want %v", l.Time(), at)
		}
		l.Stop()
	}
}

func wrapFD(t *testing.T, l *loop.Loop, fd int, p transport.Protocol) *transport.Conn {
	t.Helper()
	c, err := transport.WrapFD(l, fd, p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReadTimeout(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtual, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 25*time.Second)})
		c.SetReadTimeout(10 * time.Second)
		for s := range 15 { // bytes until 15 s
			l.CallLater(time.Duration(s+1)*time.Second, func() { syscall.Write(far, []byte("x")) })
		}
		l.CallLater(16*time.Second, func() { c.Write([]byte("to send is not to receive")) })
		run(t, l)
		if n := l.Stats().TimersFired; n > 15+1+4 {
			t.Errorf("%d timers fired", n)
		}
	})
}

func TestReadTimeoutDoesNotCountPauses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtual, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 110*time.Second)})
		c.SetReadTimeout(10 * time.Second)
		l.CallLater(5*time.Second, c.PauseReading)
		l.CallLater(100*time.Second, c.ResumeReading)
		run(t, l)
	})
}

// stays is a protocol that stays when the peer has ended.
type stays struct{ script }

func (stays) EOFReceived(*transport.Conn) bool { return true }

func TestReadTimeoutEndsWithThePeersEnd(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtual, near, far int) {
		c := wrapFD(t, l, near, &stays{script{lost: stops(t, l, nil)}})
		c.SetReadTimeout(10 * time.Second)
		l.CallLater(5*time.Second, func() { syscall.Shutdown(far, syscall.SHUT_WR) })
		l.CallLater(time.Minute, func() { c.Close() })
		run(t, l)
		if n := l.Stats().TimersFired; n > 3 {
			t.Errorf("%d timers fired", n)
		}
	})
}

func TestWriteTimeout(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtual, near, far int) {
		syscall.SetNonblock(far, true)
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "write", 125*time.Second)})
		c.SetWriteTimeout(10 * time.Second)
		l.CallLater(50*time.Second, func() { // nothing waits until now
			if n := l.Stats().TimersFired; n > 2 {
				t.Errorf("%d timers fired for a connection with nothing to send", n)
			}
			for range 16 {
				c.Write(big)
			}
		})
		buf := make([]byte, 64<<10)
		for s := 55; s <= 115; s += 5 { // the peer takes some now and then
			l.CallLater(time.Duration(s)*time.Second, func() {
				for n := 1; n > 0; {
					n, _ = syscall.Read(far, buf)
				}
			})
		}
		l.CallLater(116*time.Second, func() { c.Close() }) // does not stop the clock
		run(t, l)
	})
}

// TestTimeoutOfAPeerThatReadsLittle: the peer takes some bytes soon after the first that
// found no room, too few for the system to tell of. The time counts from about then, not
// from when a write is tried at its end.
func TestTimeoutOfAPeerThatReadsLittle(t *testing.T) {
	for name, set := range map[string]func(*transport.Conn, time.Duration){
		"write": (*transport.Conn).SetWriteTimeout,
		"idle":  (*transport.Conn).SetIdleTimeout,
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtual, _, _ int) {
				near, far := tcpSockets(t)
				c := wrapFD(t, l, near, &script{lost: func(_ *transport.Conn, err error) {
					if !errors.Is(err, os.ErrDeadlineExceeded) || l.Time() < 10*time.Second || l.Time() > 13*time.Second {
						t.Errorf("lost after %v with %v", l.Time(), err)
					}
					l.Stop()
				}})
				set(c, 10*time.Second)
				for range 16 {
					c.Write(big)
				}
				l.CallLater(time.Second, func() { io.ReadFull(far, make([]byte, 150_000)) })
				run(t, l)
			})
		})
	}
}

// tcpSockets are the two ends of a connection, with much more room at the near one.
func tcpSockets(t *testing.T) (fd int, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 100_000) })
	}}
	far, err = d.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	near, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	f, err := near.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	near.(*net.TCPConn).SetWriteBuffer(2_000_000)
	return int(f.Fd()), far
}

func TestIdleTimeoutIsAboutBoth(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtual, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 22*time.Second)})
		c.SetIdleTimeout(10 * time.Second)
		l.CallLater(6*time.Second, func() { syscall.Write(far, []byte("x")) })
		l.CallLater(12*time.Second, func() { c.Write([]byte("x")) })
		run(t, l)
	})
}

func TestTimeoutsCanBeMovedAndTakenBack(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtual, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 62*time.Second)})
		c.SetReadTimeout(10 * time.Second)
		c.SetIdleTimeout(20 * time.Second)
		l.CallLater(9*time.Second, func() { c.SetReadTimeout(0); c.SetIdleTimeout(-1) })
		l.CallLater(60*time.Second, func() {
			c.SetReadTimeout(time.Hour)
			c.SetIdleTimeout(1<<63 - 1) // for ever
			c.SetReadTimeout(2 * time.Second)
		})
		run(t, l)
	})
}

// TestWhatHasArrivedIsNotTimedOut: after a turn that took too long the timer comes
// before the event, if there are many events. The bytes were in time.
func TestWhatHasArrivedIsNotTimedOut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, v *virtual, near, far int) {
		var got string
		c := wrapFD(t, l, near, &script{
			got:  func(c *transport.Conn, data []byte) { got = string(data); c.Close() },
			lost: stops(t, l, nil),
		})
		c.SetReadTimeout(10 * time.Second)
		l.CallLater(time.Second, func() {
			for range 300 { // more than the loop takes at once
				r, w := pipe(t)
				w.Write([]byte("x"))
				fd := int(r.Fd())
				if err := l.AddReader(fd, func() { l.RemoveReader(fd) }); err != nil {
					t.Fatal(err)
				}
			}
			syscall.Write(far, []byte("in time"))
			v.now += time.Minute // this takes long
		})
		run(t, l)
		if got != "in time" {
			t.Errorf("got %q", got)
		}
	})
}
