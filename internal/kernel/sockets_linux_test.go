package kernel

import (
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unixConn returns the listener and both ends of a Unix stream connection.
func unixConn(t *testing.T) (listener, client, server int) {
	t.Helper()
	var s sockets
	listener, err := s.Socket(Unix, Stream)
	must(t, err)
	t.Cleanup(func() { s.CloseFD(listener) })
	// An abstract name: Bind takes it with a NUL, Connect in its printed form.
	name := "spindle/" + strconv.Itoa(os.Getpid()) + "/" + time.Now().String()
	must(t, s.Bind(listener, Addr{Path: "\x00" + name}))
	must(t, s.Listen(listener, 1))
	client, err = s.Socket(Unix, Stream)
	must(t, err)
	t.Cleanup(func() { s.CloseFD(client) })
	must(t, s.Connect(client, Addr{Path: "@" + name}))
	server, err = s.Accept(listener)
	must(t, err)
	t.Cleanup(func() { s.CloseFD(server) })
	return listener, client, server
}

// The test checks the flags themselves: a blocking call would hang the test, and a
// descriptor that a child inherits has no other visible effect.
func TestSocketsAreNonBlockingAndClosedOnExec(t *testing.T) {
	listener, client, server := unixConn(t)
	for what, fd := range map[string]int{"listener": listener, "client": client, "accepted": server} {
		if !isNonblocking(t, fd) {
			t.Errorf("%s: the descriptor is blocking", what)
		}
		if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: a child process would inherit the descriptor", what)
		}
	}
}

func TestShutdownOfTheReadSideLeavesTheWriteSideOpen(t *testing.T) {
	var s sockets
	_, client, server := unixConn(t)
	must(t, s.Shutdown(client, ReadSide))
	if _, err := s.Send(client, []byte("x")); err != nil {
		t.Errorf("Send after a shutdown of the read side: %v", err)
	}
	var buf [8]byte
	if n, err := s.Recv(server, buf[:]); err != nil || string(buf[:n]) != "x" {
		t.Errorf("received %q, %v, want \"x\"", buf[:n], err)
	}
}

// Signals arrive in the order of their numbers, so a signal with a higher number
// arrives after any SIGPIPE.
func TestSendsToAClosedPeerRaiseNoSignal(t *testing.T) {
	var s sockets
	_, client, server := unixConn(t)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGPIPE, syscall.SIGWINCH)
	defer signal.Stop(signals)
	must(t, s.Shutdown(server, BothSides))
	var buf [8]byte
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
		t.Errorf("received signal %v", sig)
	}
}

func TestZonesSurviveConversion(t *testing.T) {
	for _, ip := range []string{"fe80::1%lo", "fe80::1%424242", "fe80::1"} {
		a := Addr{AddrPort: netip.AddrPortFrom(netip.MustParseAddr(ip), 7)}
		sa, err := sockaddr(a)
		must(t, err)
		if got := addrOf(sa); got != a {
			t.Errorf("%v was converted to %v", a, got)
		}
	}
}

func TestDatagramsDoNotAllocate(t *testing.T) {
	var s sockets
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		any := Addr{AddrPort: netip.MustParseAddrPort(at)}
		fd, err := s.Socket(any.Family(), Datagram)
		must(t, err)
		defer s.CloseFD(fd)
		if err := s.Bind(fd, any); err != nil {
			t.Skipf("no %s here: %v", at, err)
		}
		me, err := s.LocalAddr(fd)
		must(t, err)
		out, in := []byte("datagram"), make([]byte, 64)
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := s.SendTo(fd, out, me); err != nil {
				t.Fatal(err)
			}
			n, from, truncated, err := s.RecvFrom(fd, in)
			if err != nil || n != len(out) || from != me || truncated {
				t.Fatalf("%d bytes from %v, truncated %v, error %v", n, from, truncated, err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations per datagram, want 0", at, allocs)
		}
	}
}

func TestUnixDatagramsCarryTheSendersName(t *testing.T) {
	var s sockets
	to := Addr{Path: filepath.Join(t.TempDir(), "to")}
	rx, err := s.Socket(Unix, Datagram)
	must(t, err)
	defer s.CloseFD(rx)
	must(t, s.Bind(rx, to))
	abstract := "@spindle-kernel-" + strconv.Itoa(os.Getpid())
	for _, from := range []string{filepath.Join(t.TempDir(), "from"), abstract, ""} {
		tx, err := s.Socket(Unix, Datagram)
		must(t, err)
		if from != "" {
			must(t, s.Bind(tx, Addr{Path: from}))
		}
		_, err = s.SendTo(tx, []byte("x"), to)
		must(t, err)
		if _, got, _, err := s.RecvFrom(rx, make([]byte, 8)); err != nil || got.Path != from {
			t.Errorf("from %q, %v, want %q", got.Path, err, from)
		}
		s.CloseFD(tx)
	}
}
