package main

import (
	"bytes"
	"net"
	"testing"

	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	return servertest.Dial(t, "udp", addr)
}

// exchange sends a datagram and expects it back. On one machine no datagram is lost while
// the socket buffers have space, and one datagram always fits.
func exchange(t *testing.T, conn net.Conn, message []byte) {
	t.Helper()
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64<<10)
	n, err := conn.Read(got)
	if err != nil || !bytes.Equal(got[:n], message) {
		t.Fatalf("%d bytes came back, %v; want the %d bytes sent", n, err, len(message))
	}
}

func TestEachDatagramComesBack(t *testing.T) {
	conn := dial(t, servertest.Listen(t, run))
	for _, size := range []int{0, 1, 1472, 9000, 65507} { // up to the maximum
		message := make([]byte, size)
		for i := range message {
			message[i] = byte(i ^ i>>8)
		}
		exchange(t, conn, message)
	}
}

func TestEveryClientGetsItsOwnDatagrams(t *testing.T) {
	addr := servertest.Listen(t, run)
	a, b := dial(t, addr), dial(t, addr)
	for _, m := range []string{"one", "two"} {
		if _, err := a.Write([]byte("a" + m)); err != nil {
			t.Fatal(err)
		}
	}
	exchange(t, b, []byte("b"))
	for _, m := range []string{"aone", "atwo"} {
		got := make([]byte, 16)
		if n, err := a.Read(got); err != nil || string(got[:n]) != m {
			t.Fatalf("got %q, %v; want %q", got[:n], err, m)
		}
	}
}

// TestAClosedClientDoesNotDisturbOthers closes a client before its reply arrives. The
// system reports that to the server as an error of a later call.
func TestAClosedClientDoesNotDisturbOthers(t *testing.T) {
	addr := servertest.Listen(t, run)
	gone, stays := dial(t, addr), dial(t, addr)
	for range 3 {
		if _, err := gone.Write([]byte("goodbye")); err != nil {
			t.Fatal(err)
		}
	}
	gone.Close()
	for range 3 {
		exchange(t, stays, []byte("hello"))
	}
}
