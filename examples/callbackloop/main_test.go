//go:build linux

package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/examples/internal/servertest"
)

// TestMain is the program itself in the process that the test starts.
func TestMain(m *testing.M) {
	if os.Getenv("LOOP_EXAMPLE") != "" {
		main()
	}
	os.Exit(m.Run())
}

// start runs the program until the test ends, and returns its address.
func start(t *testing.T) string {
	t.Helper()
	server := exec.Command(os.Args[0], "127.0.0.1:0")
	server.Env = append(os.Environ(), "LOOP_EXAMPLE=1")
	stdout, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// greeted connects a client, and reads the greeting.
func greeted(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	begin := time.Now()
	c := servertest.DialTCP(t, addr)
	const greeting = "type something\n"
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != greeting {
		t.Fatalf("%q, %v", got, err)
	}
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("the greeting came after %v", took)
	}
	return c
}

func TestEcho(t *testing.T) {
	addr := start(t)
	first, second := greeted(t, addr), greeted(t, addr)
	servertest.Exchange(t, second, []byte("hello"))
	servertest.Exchange(t, greeted(t, addr), nil) // its descriptor has the number of one that was closed
	servertest.Exchange(t, first, []byte("the first is still there"))
}
