package kerneltest

import (
	"bytes"
	"net/netip"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

var sockets = []test{
	{name: "AcceptAndAddresses", run: func(t *kernelT) {
		l, at := t.listen(loopback)
		if at.Port() == 0 {
			t.Fatal("port 0 was not replaced by a free one")
		}
		_, err := t.Accept(l)
		t.want(err, syscall.EAGAIN)
		c, s := t.connected(l, at)
		local, err := t.LocalAddr(c)
		t.ok(err)
		peer, err := t.PeerAddr(s)
		t.ok(err)
		if local != peer {
			t.Fatalf("the client's local address is %v, but its peer sees %v", local, peer)
		}
		if to, err := t.PeerAddr(c); err != nil || to != at {
			t.Fatalf("connected to %v (%v), want %v", to, err, at)
		}
	}},
	{name: "BytesInBothDirectionsThenEndOfFile", run: func(t *kernelT) {
		a, b := t.pair()
		_, err := t.Recv(a, make([]byte, 8))
		t.want(err, syscall.EAGAIN)
		t.send(a, "ping")
		if got := t.recv(b); got != "ping" {
			t.Fatalf("got %q", got)
		}
		t.send(b, "pong")
		if got := t.recv(a); got != "pong" {
			t.Fatalf("got %q", got)
		}
		t.ok(t.CloseFD(b))
		if got := t.recv(a); got != "" {
			t.Fatalf("got %q at the end", got)
		}
	}},
	{name: "ConnectRefused", run: func(t *kernelT) {
		l, at := t.listen(loopback)
		t.ok(t.CloseFD(l))
		c := t.socket(kernel.IPv4, kernel.Stream)
		err := t.Connect(c, at)
		if err == syscall.EINPROGRESS {
			t.waitReady(c, kernel.Write)
			code, e := t.Option(c, kernel.SocketError)
			t.ok(e)
			err = syscall.Errno(code)
		}
		t.want(err, syscall.ECONNREFUSED)
	}},
	{name: "FullSendBufferBecomesWritableAgain", run: func(t *kernelT) {
		a, b := t.pair()
		total := t.fill(a)
		t.ok(t.Add(a, 5, kernel.Write, kernel.Level))
		t.noEvents()
		t.ok(t.Delete(a))
		buf := make([]byte, 256<<10)
		for got := 0; got < total; {
			n, err := t.Recv(b, buf)
			if err == syscall.EAGAIN {
				t.waitReady(b, kernel.Read)
				continue
			}
			t.ok(err)
			got += n
		}
		if r := t.waitReady(a, kernel.Write); r&kernel.Writable == 0 {
			t.Fatalf("ready %v", r)
		}
	}},
	{name: "SendvKeepsOrder", run: func(t *kernelT) {
		a, b := t.pair()
		parts := [][]byte{[]byte("one "), nil, []byte("two "), []byte("three")}
		n, err := t.Sendv(a, parts)
		t.ok(err)
		want := bytes.Join(parts, nil)
		if n != len(want) {
			t.Fatalf("sent %d of %d", n, len(want))
		}
		if got := t.recv(b); got != string(want) {
			t.Fatalf("got %q", got)
		}
	}},
	{name: "SendToAClosedPeerFailsWithoutASignal", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.CloseFD(b))
		t.waitReady(a, kernel.Read)
		for range 100 {
			_, err := t.Send(a, []byte("x"))
			if err == syscall.EPIPE || err == syscall.ECONNRESET {
				return
			}
			t.ok(err)
			t.waitReady(a, kernel.Write)
		}
		t.Fatal("sending to a closed peer never failed")
	}},
	{name: "AddressInUse", run: func(t *kernelT) {
		_, at := t.listen(loopback)
		fd := t.socket(kernel.IPv4, kernel.Stream)
		err := t.Bind(fd, at)
		if err == nil {
			err = t.Listen(fd, 1)
		}
		t.want(err, syscall.EADDRINUSE)
	}},
	{name: "ReusePortSharesAnAddress", run: func(t *kernelT) {
		at := loopback
		for range 2 {
			fd := t.socket(kernel.IPv4, kernel.Stream)
			t.ok(t.SetOption(fd, kernel.ReusePort, 1))
			t.ok(t.Bind(fd, at))
			t.ok(t.Listen(fd, 1))
			var err error
			at, err = t.LocalAddr(fd)
			t.ok(err)
		}
	}},
	{name: "OptionsAreKept", run: func(t *kernelT) {
		fd := t.socket(kernel.IPv4, kernel.Stream)
		for _, o := range []kernel.Option{kernel.NoDelay, kernel.KeepAlive, kernel.ReuseAddr} {
			t.ok(t.SetOption(fd, o, 1))
			if v, err := t.Option(fd, o); err != nil || v == 0 {
				t.Fatalf("option %d is %d (%v) after it was set", o, v, err)
			}
		}
		t.want(t.SetOption(fd, kernel.SocketError, 1), syscall.EINVAL)
		t.want(t.SetOption(fd, 200, 1), syscall.EINVAL)
	}},
	{name: "Datagrams", run: func(t *kernelT) {
		a, b := t.socket(kernel.IPv4, kernel.Datagram), t.socket(kernel.IPv4, kernel.Datagram)
		t.ok(t.Bind(a, loopback))
		t.ok(t.Bind(b, loopback))
		atA, err := t.LocalAddr(a)
		t.ok(err)
		atB, err := t.LocalAddr(b)
		t.ok(err)
		_, err = t.SendTo(a, []byte("hello there"), atB)
		t.ok(err)
		t.waitReady(b, kernel.Read)
		buf := make([]byte, 5)
		n, from, truncated, err := t.RecvFrom(b, buf)
		t.ok(err)
		if string(buf[:n]) != "hello" || from != atA || !truncated {
			t.Fatalf("got %q from %v, truncated %v", buf[:n], from, truncated)
		}
		_, _, _, err = t.RecvFrom(b, buf)
		t.want(err, syscall.EAGAIN) // the rest of a truncated datagram is discarded
		t.ok(t.Connect(b, atA))
		_, err = t.SendTo(b, []byte("hi"), kernel.Addr{})
		t.ok(err)
		t.waitReady(a, kernel.Read)
		n, from, truncated, err = t.RecvFrom(a, buf)
		t.ok(err)
		if string(buf[:n]) != "hi" || from != atB || truncated {
			t.Fatalf("got %q from %v, truncated %v", buf[:n], from, truncated)
		}
	}},
	{name: "UnixStreams", run: func(t *kernelT) {
		path := t.TempDir() + "/s"
		l, at := t.listen(kernel.Addr{Path: path})
		if at.Path != path || at.Family() != kernel.Unix {
			t.Fatalf("bound to %q", at)
		}
		a, b := t.connected(l, at)
		t.send(a, "ping")
		if got := t.recv(b); got != "ping" {
			t.Fatalf("got %q", got)
		}
	}},
	{name: "IPv6", run: func(t *kernelT) {
		at := kernel.Addr{AddrPort: netip.MustParseAddrPort("[::1]:0")}
		probe := t.socket(kernel.IPv6, kernel.Stream)
		if err := t.Bind(probe, at); err != nil {
			t.Skipf("no IPv6 loopback here: %v", err)
		}
		a, b := t.connected(t.listen(at))
		t.send(a, "six")
		if got := t.recv(b); got != "six" {
			t.Fatalf("got %q", got)
		}
	}},
	{name: "InvalidCallsFailWithTheirErrno", run: func(t *kernelT) {
		_, err := t.Socket(0, kernel.Stream)
		t.want(err, syscall.EINVAL)
		_, err = t.Socket(kernel.IPv4, 99)
		t.want(err, syscall.EINVAL)
		fd := t.socket(kernel.IPv4, kernel.Stream)
		t.want(t.Bind(fd, kernel.Addr{}), syscall.EINVAL)
		t.want(t.Connect(fd, kernel.Addr{}), syscall.EINVAL)
		_, err = t.PeerAddr(fd)
		t.want(err, syscall.ENOTCONN)
		_, err = t.Recv(-1, make([]byte, 1))
		t.want(err, syscall.EBADF)
		_, err = t.Accept(-1)
		t.want(err, syscall.EBADF)
		t.want(t.CloseFD(-1), syscall.EBADF)
	}},
}
