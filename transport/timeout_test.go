package transport_test

import (
	"context"
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

// virtualClock is a kernel with real descriptors and a clock that advances only when
// the loop waits for a timer.
type virtualClock struct {
	kernel.Poller
	now time.Duration
}

func (v *virtualClock) Mono() time.Duration           { return v.now }
func (v *virtualClock) Wall() time.Time               { return time.Unix(0, 0).Add(v.now) }
func (*virtualClock) At(mono time.Duration) time.Time { return time.Unix(0, 0).Add(mono) }

func (v *virtualClock) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	n, err := v.Poller.Wait(events, min(timeout, 0))
	if n == 0 && timeout > 0 {
		v.now += timeout
	}
	return n, err
}

// inVirtualTime runs a test with a loop on each poller, in virtual time, and with the
// two ends of a socket.
func inVirtualTime(t *testing.T, test func(t *testing.T, l *loop.Loop, v *virtualClock, near, far int)) {
	for _, backend := range []string{"auto", "poll"} {
		t.Run(backend, func(t *testing.T) {
			k, err := kernel.Open(backend)
			if err != nil {
				t.Fatal(err)
			}
			v := &virtualClock{Poller: k.Poller}
			k.Poller, k.Clock = v, v
			l, err := loop.New(loop.Internal().WithKernel(loop.Options{Watchdog: -1}, k))
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

// timesOut stops the loop when the connection is lost. That must be at the given time,
// by a timeout of op.
func timesOut(t *testing.T, l *loop.Loop, op string, at time.Duration) func(*transport.Conn, error) {
	return func(_ *transport.Conn, err error) {
		var e *net.OpError
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &e) || e.Op != op || !e.Timeout() {
			t.Errorf("lost with %v, want a timeout of a %s", err, op)
		}
		if l.Time() != at {
			t.Errorf("lost after %v, want %v", l.Time(), at)
		}
		l.Stop()
	}
}

// rawFD is a descriptor as a syscall.Conn. Unlike an *os.File, it has no finalizer.
type rawFD int

func (fd rawFD) SyscallConn() (syscall.RawConn, error) { return fd, nil }
func (fd rawFD) Control(fn func(uintptr)) error        { fn(uintptr(fd)); return nil }
func (fd rawFD) Read(func(uintptr) bool) error         { return syscall.ENOTSUP }
func (fd rawFD) Write(func(uintptr) bool) error        { return syscall.ENOTSUP }

func wrapFD(t *testing.T, l *loop.Loop, fd int, p transport.Protocol) *transport.Conn {
	t.Helper()
	c, err := transport.Wrap(l, rawFD(fd), p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReadTimeout(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtualClock, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 25*time.Second)})
		c.SetReadTimeout(10 * time.Second)
		for s := range 15 { // bytes arrive until 15 s
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
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtualClock, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 110*time.Second)})
		c.SetReadTimeout(10 * time.Second)
		l.CallLater(5*time.Second, c.PauseReading)
		l.CallLater(100*time.Second, c.ResumeReading)
		run(t, l)
	})
}

// keepOpenScript keeps the connection open after EOF.
type keepOpenScript struct{ script }

func (keepOpenScript) EOFReceived(*transport.Conn) bool { return true }

func TestReadTimeoutEndsWithThePeersEnd(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtualClock, near, far int) {
		c := wrapFD(t, l, near, &keepOpenScript{script{lost: stopWhenLost(t, l, nil)}})
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
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtualClock, near, far int) {
		syscall.SetNonblock(far, true)
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "write", 125*time.Second)})
		c.SetWriteTimeout(10 * time.Second)
		l.CallLater(50*time.Second, func() { // nothing is unsent until now
			if n := l.Stats().TimersFired; n > 2 {
				t.Errorf("%d timers fired for a connection with nothing to send", n)
			}
			for range 16 {
				c.Write(big)
			}
		})
		buf := make([]byte, 64<<10)
		for s := 55; s <= 115; s += 5 { // the peer reads some now and then
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

// TestWriteTimeoutSlowPeer: soon after the socket is full the peer reads some bytes, too
// few for the system to report the socket writable. The timeout counts from about then,
// not from a write that is tried at its end.
func TestWriteTimeoutSlowPeer(t *testing.T) {
	for name, set := range map[string]func(*transport.Conn, time.Duration){
		"write": (*transport.Conn).SetWriteTimeout,
		"idle":  (*transport.Conn).SetIdleTimeout,
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtualClock, _, _ int) {
				near, far := tcpSocketPair(t)
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

// tcpSocketPair returns two connected sockets. The near one has a much larger send
// buffer.
func tcpSocketPair(t *testing.T) (fd int, far net.Conn) {
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
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtualClock, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 22*time.Second)})
		c.SetIdleTimeout(10 * time.Second)
		l.CallLater(6*time.Second, func() { syscall.Write(far, []byte("x")) })
		l.CallLater(12*time.Second, func() { c.Write([]byte("x")) })
		run(t, l)
	})
}

func TestTimeoutsCanBeMovedAndTakenBack(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, _ *virtualClock, near, far int) {
		c := wrapFD(t, l, near, &script{lost: timesOut(t, l, "read", 62*time.Second)})
		c.SetReadTimeout(10 * time.Second)
		c.SetIdleTimeout(20 * time.Second)
		l.CallLater(9*time.Second, func() { c.SetReadTimeout(0); c.SetIdleTimeout(-1) })
		l.CallLater(60*time.Second, func() {
			c.SetReadTimeout(time.Hour)
			c.SetIdleTimeout(1<<63 - 1) // forever
			c.SetReadTimeout(2 * time.Second)
		})
		run(t, l)
	})
}

// TestTimeoutReadsArrivedData: after a long turn with many events, the timer fires
// before the event of data that arrived in time. That data must be read first.
func TestTimeoutReadsArrivedData(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *loop.Loop, v *virtualClock, near, far int) {
		var got string
		c := wrapFD(t, l, near, &script{
			data: func(c *transport.Conn, data []byte) { got = string(data); c.Close() },
			lost: stopWhenLost(t, l, nil),
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
			v.now += time.Minute // a long turn
		})
		run(t, l)
		if got != "in time" {
			t.Errorf("got %q", got)
		}
	})
}

// TestIdleTimeout: a connection ends when nothing is received or sent. Both directions
// count as activity, and the timeout can be changed while it runs.
func TestIdleTimeout(t *testing.T) {
	sec := time.Second
	for _, tc := range []struct {
		name string
		at   map[time.Duration]string // actions by time
		ends time.Duration
	}{
		{"silence", nil, 10 * sec},
		{"received", map[time.Duration]string{4 * sec: "peer writes", 9 * sec: "peer writes"}, 19 * sec},
		{"sent", map[time.Duration]string{8 * sec: "write"}, 18 * sec},
		{"sent much", map[time.Duration]string{8 * sec: "write much"}, 18 * sec},
		{"longer", map[time.Duration]string{5 * sec: "20s"}, 25 * sec},
		{"shorter", map[time.Duration]string{5 * sec: "1s"}, 6 * sec},
		{"never, then again", map[time.Duration]string{5 * sec: "0s", 100 * sec: "3s"}, 103 * sec},
		{"paused", map[time.Duration]string{1 * sec: "pause", 2 * sec: "peer writes"}, 10 * sec},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, d, s := onDeadHosts(t)
			var server, client *transport.Conn
			var why error
			var ended time.Duration
			s.Close()
			s, err := transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol {
				return &spy{
					tb: t,
					made: func(c *transport.Conn) {
						server = c
						c.SetIdleTimeout(10 * sec)
						for at, what := range tc.at {
							l.CallLater(at, func() {
								switch what {
								case "peer writes":
									client.Write([]byte("x"))
								case "write":
									c.Write([]byte("x"))
								case "write much":
									c.Write(make([]byte, 5000))
								case "pause":
									c.PauseReading()
								default:
									idle, _ := time.ParseDuration(what)
									c.SetIdleTimeout(idle)
								}
							})
						}
					},
					lost: func(c *transport.Conn, err error) { ended, why = d.now, err },
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			p := &spy{tb: t, made: func(c *transport.Conn) { client = c }, lost: func(*transport.Conn, error) { l.CallLater(1, l.Stop) }}
			transport.Connect(t.Context(), l, "unix", s.Addr().String(), transport.ConnectOptions{Protocol: p, OnError: func(err error) { t.Error(err) }})
			if err := l.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			s.Close()
			var op *net.OpError
			if ended != tc.ends || !errors.Is(why, os.ErrDeadlineExceeded) || !errors.As(why, &op) || !op.Timeout() {
				t.Errorf("ended at %v with %v", ended, why)
			}
			if server.Info().Unsent != 0 {
				t.Error("a lost connection has unsent bytes")
			}
		})
	}
}
