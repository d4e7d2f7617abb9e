// Package trial runs an example's server in its test, as a process that is
// interrupted at the end.
package trial

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

// Patience is how long a client waits before the server counts as stuck.
const Patience = 15 * time.Second

// Server is a server under test.
type Server struct {
	Says *bufio.Reader // what it prints
	Stop func()        // interrupts it; so does the end of the test
}

// Start runs a server. When it is interrupted it must end as cancelled.
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
		r.Close() // what it still has to say is not waited for
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended with %v", err)
		}
	})
	return &Server{Says: bufio.NewReader(r), Stop: cancel}
}

// Line is the next line that the server prints.
func (s *Server) Line(t *testing.T) string {
	t.Helper()
	line, err := s.Says.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// Addr is where the server says that it listens.
func (s *Server) Addr(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(s.Line(t), "listening on ")
}

// Dial connects to a server. The connection fails if it is stuck, and is closed
// when the test ends.
func Dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout(network, addr, Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(Patience))
	return conn
}
