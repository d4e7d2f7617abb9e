package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is how long a client waits before the server counts as stuck.
const patience = 15 * time.Second

// start runs the server until the test ends. It must then end as cancelled.
func start(t *testing.T) (addr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, "127.0.0.1:0", w)
		w.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended with %v", err)
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("udp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
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
