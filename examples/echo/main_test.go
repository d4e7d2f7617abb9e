package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/examples/internal/trial"
	"github.com/spindleloop/spindle/internal/leak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until the test ends.
func start(t *testing.T) (addr string) {
	t.Helper()
	return trial.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, 0, out) }).Addr(t)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	return trial.Dial(t, "tcp", addr).(*net.TCPConn)
}

// exchange sends message while it reads what comes back, to the end.
func exchange(t *testing.T, conn interface {
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
		t.Fatalf("%d bytes came back, not the %d that were sent", len(got), len(message))
	}
}

func TestWhatIsSentComesBack(t *testing.T) {
	addr := start(t)
	for _, size := range []int{0, 1, 4096, 3<<20 + 7} {
		exchange(t, dial(t, addr), pattern(size))
	}
}

// A client writes without reading until nothing more is taken: the server must
// stop reading from it. Then everything must come back.
func TestAClientThatDoesNotRead(t *testing.T) {
	const (
		stuck = 100 * time.Millisecond // without progress
		limit = 256 << 20              // far beyond what sockets hold
	)
	conn := dial(t, start(t))
	message := pattern(1 << 20)
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
		t.Fatalf("%d bytes came back of %d, %v", len(got), taken, err)
	}
	for at := 0; at < len(got); at += len(message) {
		part := got[at:min(at+len(message), len(got))]
		if !bytes.Equal(part, message[:len(part)]) {
			t.Fatalf("what came back is changed after byte %d", at)
		}
	}
}

// On a socket that holds little every write is cut short.
func TestWritesThatAreCutShort(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.SetNonblock(pair[0], true), unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1)); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(pair[1]), "client")
	conn, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(trial.Patience))
	ended := make(chan error, 1)
	go func() {
		ended <- spindle.Run(t.Context(), func(ctx context.Context) error { return echo(ctx, pair[0]) })
	}()
	exchange(t, conn.(*net.UnixConn), pattern(1<<20))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// pattern is n bytes in which a lost or moved one shows.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return p
}

// The clients are all connected before the last one is answered first.
func TestClientsDoNotWaitForEachOther(t *testing.T) {
	addr := start(t)
	var conns []*net.TCPConn
	for range 20 {
		conns = append(conns, dial(t, addr))
	}
	for i := len(conns) - 1; i >= 0; i-- {
		exchange(t, conns[i], []byte("hello"))
	}
}

func TestAResetEndsOneConnectionOnly(t *testing.T) {
	addr := start(t)
	gone := dial(t, addr)
	gone.Write([]byte("this is never read"))
	gone.SetLinger(0) // close by a reset
	gone.Close()
	exchange(t, dial(t, addr), []byte("still there?"))
}

// Cancelled while a client is connected and idle, it leaves nobody behind: see
// leak.Main, and start's Cleanup.
func TestCancellingClosesConnections(t *testing.T) {
	var conn *net.TCPConn
	t.Run("serving", func(t *testing.T) {
		addr := start(t)
		var err error
		dialed, err := net.DialTimeout("tcp", addr, trial.Patience)
		if err != nil {
			t.Fatal(err)
		}
		conn = dialed.(*net.TCPConn)
		conn.SetDeadline(time.Now().Add(trial.Patience))
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
		t.Errorf("read %d, %v; want the end", n, err)
	}
}
