package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/spindleloop/spindle/examples/internal/trial"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until the test ends.
func start(t *testing.T) (addr string) {
	t.Helper()
	return trial.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) }).Addr(t)
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	return trial.Dial(t, "udp", addr)
}

// exchange sends a datagram and expects it back. On one machine none is lost
// while there is room, and one always has.
func exchange(t *testing.T, conn net.Conn, message []byte) {
	t.Helper()
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64<<10)
	n, err := conn.Read(got)
	if err != nil || !bytes.Equal(got[:n], message) {
		t.Fatalf("%d bytes came back, %v; want the %d that were sent", n, err, len(message))
	}
}

func TestEachDatagramComesBack(t *testing.T) {
	conn := dial(t, start(t))
	for _, size := range []int{0, 1, 1472, 9000, 65507} { // none is longer
		message := make([]byte, size)
		for i := range message {
			message[i] = byte(i ^ i>>8)
		}
		exchange(t, conn, message)
	}
}

func TestEveryClientGetsItsOwn(t *testing.T) {
	addr := start(t)
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

// The answer to a client that has gone comes back as an error, some time later.
func TestAClientThatHasGoneHarmsNobody(t *testing.T) {
	addr := start(t)
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
