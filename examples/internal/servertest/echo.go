package servertest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Echo checks an echo server over TCP. Each call of start runs a server until the test
// ends, and returns its address.
func Echo(t *testing.T, start func(t *testing.T) (addr string)) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, addr string)
	}{
		{"bytes come back", bytesComeBack},
		{"clients do not wait for each other", clientsAreIndependent},
		{"a client that does not read is not read from", backpressure},
		{"a reset ends one connection only", resetEndsOneConnection},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, start(t)) })
	}
	t.Run("cancelling closes connections", func(t *testing.T) { cancelClosesConnections(t, start) })
}

func bytesComeBack(t *testing.T, addr string) {
	for _, size := range []int{0, 1, 4096, 3<<20 + 7} {
		Exchange(t, DialTCP(t, addr), Pattern(size))
	}
}

// clientsAreIndependent connects all clients before the last one is served first.
func clientsAreIndependent(t *testing.T, addr string) {
	var conns []*net.TCPConn
	for range 20 {
		conns = append(conns, DialTCP(t, addr))
	}
	for i := len(conns) - 1; i >= 0; i-- {
		Exchange(t, conns[i], []byte("hello"))
	}
}

// backpressure writes without reading until the server takes no more. Then all of it must
// come back.
func backpressure(t *testing.T, addr string) {
	const (
		stuck = 100 * time.Millisecond // without progress
		limit = 256 << 20              // far beyond the size of socket buffers
	)
	conn := DialTCP(t, addr)
	message := Pattern(1 << 20)
	taken := 0
	for {
		conn.SetWriteDeadline(time.Now().Add(stuck))
		n, err := conn.Write(message[taken%len(message):])
		taken += n
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			break
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if taken > limit {
			t.Fatalf("the server took %d bytes from a client that reads none", taken)
		}
	}
	conn.CloseWrite()
	got, err := io.ReadAll(conn)
	if err != nil || len(got) != taken {
		t.Fatalf("%d of %d bytes came back, %v", len(got), taken, err)
	}
	for at := 0; at < len(got); at += len(message) {
		part := got[at:min(at+len(message), len(got))]
		if !bytes.Equal(part, message[:len(part)]) {
			t.Fatalf("the bytes differ after byte %d", at)
		}
	}
}

func resetEndsOneConnection(t *testing.T, addr string) {
	gone := DialTCP(t, addr)
	gone.Write([]byte("this is never read"))
	gone.SetLinger(0) // Close sends a reset
	gone.Close()
	Exchange(t, DialTCP(t, addr), []byte("still there?"))
}

// cancelClosesConnections ends the server while a client is connected and idle.
func cancelClosesConnections(t *testing.T, start func(t *testing.T) string) {
	var conn net.Conn
	t.Run("serving", func(t *testing.T) { // the server ends with this test
		addr := start(t)
		var err error
		if conn, err = net.DialTimeout("tcp", addr, Timeout); err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(Timeout))
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %d bytes, %v; want EOF", n, err)
	}
}

// Exchange sends message, reads until EOF, and compares.
func Exchange(t *testing.T, conn interface {
	io.ReadWriter
	CloseWrite() error
}, message []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(message)
		sent <- errors.Join(err, conn.CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, message) {
		t.Fatalf("%d bytes came back that differ from the %d sent", len(got), len(message))
	}
}

// Pattern returns n bytes in which a lost or moved byte is noticed.
func Pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return p
}
