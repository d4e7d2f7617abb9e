package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestEcho(t *testing.T) {
	servertest.Echo(t, func(t *testing.T) string {
		return servertest.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, 0, out) }).Addr(t)
	})
}

// TestShortWrites uses a socket with a small buffer, so that every write is short.
func TestShortWrites(t *testing.T) {
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
	conn.SetDeadline(time.Now().Add(servertest.Timeout))
	ended := make(chan error, 1)
	go func() {
		ended <- spindle.Run(t.Context(), func(ctx context.Context) error { return echo(ctx, pair[0]) })
	}()
	servertest.Exchange(t, conn.(*net.UnixConn), servertest.Pattern(1<<20))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
