// Package servertest runs an example's server inside its test, and interrupts it at the
// end as a signal would.
package servertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Timeout is how long a client waits before the test fails.
const Timeout = 15 * time.Second

// Server is a running server.
type Server struct {
	Output *bufio.Reader // what the server prints
	Stop   func()        // interrupts the server; the end of the test does so too
}

// Start runs a server until the test ends. An interrupted server must return an error
// that is context.Canceled.
func Start(t *testing.T, run func(ctx context.Context, out io.Writer) error) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, w)
		w.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		r.Close() // the server does not wait for its last lines to be read
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended with %v; want a cancellation", err)
		}
	})
	return &Server{Output: bufio.NewReader(r), Stop: cancel}
}

// Listen runs a server that takes an address, on a free port, until the test ends. It
// returns the address that the server prints.
func Listen(t *testing.T, run func(ctx context.Context, addr string, out io.Writer) error) (addr string) {
	t.Helper()
	return Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) }).Addr(t)
}

// Line returns the next line that the server prints.
func (s *Server) Line(t *testing.T) string {
	t.Helper()
	line, err := s.Output.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// Addr reads the line "listening on ADDRESS" and returns the address.
func (s *Server) Addr(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(s.Line(t), "listening on ")
}

// Dial connects to a server. Reads and writes fail after Timeout. The connection is
// closed when the test ends.
func Dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout(network, addr, Timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(Timeout))
	return conn
}

// DialTCP is Dial for TCP.
func DialTCP(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	return Dial(t, "tcp", addr).(*net.TCPConn)
}
