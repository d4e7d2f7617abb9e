package kernel

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func socketPair(t *testing.T, kind int) (a, b int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

func isNonblocking(t *testing.T, fd int) bool {
	t.Helper()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	must(t, err)
	return flags&unix.O_NONBLOCK != 0
}

func TestAdoptedDescriptorOutlivesTheOriginal(t *testing.T) {
	var s sockets
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(p[1])
	own, err := s.Adopt(p[0])
	must(t, err)
	unix.Close(p[0])
	if !isNonblocking(t, own) {
		t.Error("the adopted descriptor is blocking")
	}
	if flags, err := unix.FcntlInt(uintptr(own), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the adopted descriptor is not closed on exec (%v)", err)
	}
	if _, err := s.Send(own, []byte("x")); err != nil {
		t.Error(err)
	}
	must(t, s.Release(own))
	if _, err := s.Adopt(own); err != unix.EBADF {
		t.Errorf("Adopt of a closed descriptor: %v, want EBADF", err)
	}
}

// openTerminal opens a pseudo-terminal and returns its two ends.
func openTerminal(t *testing.T) (master, slave int) {
	t.Helper()
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { unix.Close(master) })
	must(t, unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	must(t, err)
	slave, err = unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { unix.Close(slave) })
	return master, slave
}

func TestAdoptLeavesATerminalBlocking(t *testing.T) {
	master, slave := openTerminal(t)
	var s sockets
	own, err := s.Adopt(slave)
	must(t, err)
	defer s.Release(own)
	if isNonblocking(t, slave) {
		t.Error("the terminal that other programs share became non-blocking")
	}
	if !isNonblocking(t, own) {
		t.Error("the adopted descriptor is blocking")
	}
	_, err = unix.Write(master, []byte("line\n"))
	must(t, err)
	buf := make([]byte, 16)
	if n, err := s.Read(own, buf); err != nil || string(buf[:n]) != "line\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	// The master is duplicated: opening it again would create another terminal.
	duplicate, err := s.Adopt(master)
	must(t, err)
	defer s.Release(duplicate)
	_, err = s.Write(duplicate, []byte("more\n"))
	must(t, err)
	if n, err := s.Read(own, buf); err != nil || string(buf[:n]) != "more\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

func TestShapes(t *testing.T) {
	var s sockets
	stream, _ := socketPair(t, unix.SOCK_STREAM)
	datagram, _ := socketPair(t, unix.SOCK_DGRAM)
	other, _ := socketPair(t, unix.SOCK_SEQPACKET)
	r, w := pipe(t)
	_, terminal := openTerminal(t)
	ln, err := s.Socket(IPv4, Stream)
	must(t, err)
	defer s.CloseFD(ln)
	must(t, s.Listen(ln, 1))
	for _, tc := range []struct {
		name string
		fd   int
		want Shape
	}{
		{"stream", stream, Shape{Socket: true, Type: Stream}},
		{"datagram", datagram, Shape{Socket: true, Type: Datagram}},
		{"packets", other, Shape{Socket: true}},
		{"listener", ln, Shape{Socket: true, Type: Stream, Listening: true}},
		{"reading end", r, Shape{ReadOnly: true}},
		{"writing end", w, Shape{WriteOnly: true}},
		{"terminal", terminal, Shape{}},
	} {
		if got, err := s.Shape(tc.fd); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, err, tc.want)
		}
	}
	if _, err := s.Shape(-1); err != unix.EBADF {
		t.Errorf("Shape(-1): %v, want EBADF", err)
	}
}

func TestNetConnLeavesTheDescriptorOpen(t *testing.T) {
	var s sockets
	a, b := socketPair(t, unix.SOCK_STREAM)
	c, err := s.NetConn(a)
	must(t, err)
	_, err = s.Send(b, []byte("hi"))
	must(t, err)
	got := make([]byte, 2)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hi" {
		t.Errorf("read %q, %v, want \"hi\"", got, err)
	}
	c.Close()
	_, err = s.Send(a, []byte("still open"))
	must(t, err)
	r, _ := pipe(t)
	if c, err := s.NetConn(r); err == nil {
		c.Close()
		t.Error("NetConn accepted a pipe")
	}
}

func TestUnlistenRefusesConnectionsAndIsReadable(t *testing.T) {
	forEachPoller(t, func(t *testing.T, k *Kernel) {
		ln, err := k.Socket(IPv4, Stream)
		must(t, err)
		defer k.CloseFD(ln)
		must(t, k.Bind(ln, Addr{AddrPort: netip.MustParseAddrPort("127.0.0.1:0")}))
		must(t, k.Listen(ln, 4))
		at, err := k.LocalAddr(ln)
		must(t, err)
		must(t, k.Add(ln, 1, Read, Level))
		must(t, k.Native().Unlisten(ln))
		if got := readyNow(t, k); len(got) != 1 || got[0].Ready&Readable == 0 {
			t.Errorf("events %v, want one that is readable", got)
		}
		if _, err := k.Accept(ln); err != unix.EINVAL {
			t.Errorf("Accept: %v, want EINVAL", err)
		}
		must(t, k.Delete(ln))
		c, err := k.Socket(IPv4, Stream)
		must(t, err)
		defer k.CloseFD(c)
		err = k.Connect(c, at)
		if err == unix.EINPROGRESS { // on loopback the result is there at once
			code, e := k.Option(c, SocketError)
			must(t, e)
			err = unix.Errno(code)
		}
		if err != unix.ECONNREFUSED {
			t.Errorf("Connect: %v, want ECONNREFUSED", err)
		}
		a, _ := socketPair(t, unix.SOCK_STREAM)
		if err := k.Native().Unlisten(a); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Unlisten of a Unix socket: %v, want errors.ErrUnsupported", err)
		}
	})
}

func TestPeerCredNamesThisProcess(t *testing.T) {
	var s sockets
	a, _ := socketPair(t, unix.SOCK_STREAM)
	want := Cred{os.Getpid(), os.Getuid(), os.Getgid()}
	if got, err := s.PeerCred(a); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	tcp, err := s.Socket(IPv4, Stream)
	must(t, err)
	defer s.CloseFD(tcp)
	r, _ := pipe(t)
	for _, fd := range []int{tcp, r} {
		if _, err := s.PeerCred(fd); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("PeerCred of a descriptor that is no Unix socket: %v, want errors.ErrUnsupported", err)
		}
	}
	if _, err := s.PeerCred(-1); err != unix.EBADF {
		t.Errorf("PeerCred(-1): %v, want EBADF", err)
	}
}

func TestUnlinkRemovesOnlyTheIdentifiedFile(t *testing.T) {
	var s sockets
	path := filepath.Join(t.TempDir(), "s")
	must(t, os.WriteFile(path, nil, 0o600))
	first, err := s.FileID(path)
	must(t, err)
	must(t, os.Rename(path, path+".old")) // keeps its inode number in use
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, s.Unlink(path, first))
	second, err := s.FileID(path)
	if err != nil {
		t.Fatalf("Unlink removed another file: %v", err)
	}
	must(t, s.Unlink(path, second))
	if _, err := s.FileID(path); err != unix.ENOENT {
		t.Errorf("FileID after Unlink: %v, want ENOENT", err)
	}
	must(t, s.Unlink(path, second)) // a missing path is no error
}

func TestSendFileStopsAtAFullSocketAndAtTheEnd(t *testing.T) {
	var s sockets
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	a, b := socketPair(t, unix.SOCK_STREAM)
	var got []byte
	buf := make([]byte, 1<<20)
	full := 0
	for offset := int64(7); ; {
		n, err := s.SendFile(a, int(f.Fd()), offset, len(content))
		switch {
		case err == unix.EAGAIN:
			full++
			m, err := s.Recv(b, buf)
			must(t, err)
			got = append(got, buf[:m]...)
			continue
		case err != nil:
			t.Fatal(err)
		}
		if offset += int64(n); n > 0 {
			continue
		}
		break
	}
	if full == 0 {
		t.Error("the socket was never full")
	}
	for len(got) < len(content)-7 {
		n, err := s.Recv(b, buf)
		must(t, err)
		got = append(got, buf[:n]...)
	}
	if !bytes.Equal(got, content[7:]) {
		t.Errorf("received %d bytes that differ from the file", len(got))
	}
}

func TestSpliceMovesFromSocketToSocket(t *testing.T) {
	var s sockets
	a, in := socketPair(t, unix.SOCK_STREAM)
	out, b := socketPair(t, unix.SOCK_STREAM)
	r, w, err := s.Pipe()
	must(t, err)
	defer s.Release(r)
	defer s.Release(w)
	if _, err := s.Splice(in, w, 1<<16); err != unix.EAGAIN {
		t.Errorf("Splice without data: %v, want EAGAIN", err)
	}
	_, err = s.Send(a, []byte("moved"))
	must(t, err)
	n, err := s.Splice(in, w, 1<<16)
	if err != nil || n != 5 {
		t.Fatalf("into the pipe: %d, %v", n, err)
	}
	if n, err = s.Splice(r, out, n); err != nil || n != 5 {
		t.Fatalf("out of the pipe: %d, %v", n, err)
	}
	buf := make([]byte, 16)
	if n, err := s.Recv(b, buf); err != nil || string(buf[:n]) != "moved" {
		t.Errorf("received %q, %v, want \"moved\"", buf[:n], err)
	}
	must(t, s.Shutdown(a, WriteSide))
	if n, err := s.Splice(in, w, 1<<16); n != 0 || err != nil {
		t.Errorf("Splice at the end: %d, %v, want 0", n, err)
	}
}

func TestNativeCallsOfASimulatedKernelFail(t *testing.T) {
	n := (&Kernel{Sockets: struct{ Sockets }{}}).Native()
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	_, err := n.Adopt(0)
	note(err)
	note(n.Release(0))
	note(n.Unlisten(0))
	_, err = n.Shape(0)
	note(err)
	_, err = n.NetConn(0)
	note(err)
	_, err = n.PeerCred(0)
	note(err)
	_, err = n.FileID("")
	note(err)
	note(n.Unlink("", FileID{}))
	_, err = n.SendFile(0, 0, 0, 0)
	note(err)
	_, _, err = n.Pipe()
	note(err)
	_, err = n.Splice(0, 0, 0)
	note(err)
	for i, err := range errs {
		if err != unix.ENOSYS || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("call %d: %v, want ENOSYS", i, err)
		}
	}
	k, err := Open("")
	must(t, err)
	defer k.Close()
	if _, ok := k.Native().(*sockets); !ok {
		t.Errorf("the real kernel has %T", k.Native())
	}
}
