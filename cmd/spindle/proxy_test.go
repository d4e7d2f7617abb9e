package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
)

var passing = regexp.MustCompile(`^spindle proxy: (\S+) → (\S+)\n$`)

// startProxy runs the command until end is called, which returns what it said at
// last and on standard error.
func startProxy(t *testing.T, args ...string) (addr string, end func() (last, errs string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var errs bytes.Buffer
	exit := make(chan int, 1)
	go func() {
		code := execute(ctx, append([]string{"proxy"}, args...), w, &errs)
		w.Close()
		exit <- code
	}()
	t.Cleanup(cancel)
	lines := bufio.NewReader(r)
	line, err := lines.ReadString('\n')
	said := passing.FindStringSubmatch(line)
	if said == nil {
		t.Fatalf("the command says %q, %v, and on stderr %q", line, err, errs.String())
	}
	return said[1], func() (string, string) {
		cancel()
		rest, _ := io.ReadAll(lines)
		if code := <-exit; code != 0 {
			t.Errorf("exit code %d", code)
		}
		return string(rest), errs.String()
	}
}

// TestProxy: everything goes through, both ways, and is counted.
func TestProxy(t *testing.T) {
	target := startEcho(t, "protocol", kernel.Backends()[0], 1)
	addr, end := startProxy(t, "127.0.0.1:0", target)
	echoAll(t, addr, nil)
	echoAll(t, addr, pattern(5<<20, 1))
	manyClients(t, addr)
	doesNotRead(t, addr)
	last, errs := end()
	var accepted, open, failed, up, down int
	if _, err := fmt.Sscanf(last, "spindle proxy: %d accepted, %d open, %d failed, %d bytes up, %d down\n", &accepted, &open, &failed, &up, &down); err != nil {
		t.Fatalf("at last it says %q: %v", last, err)
	}
	if accepted != 103 || open != 0 || failed != 0 || up < 5<<20 || up != down || errs != "" {
		t.Errorf("it says %q and %q", last, errs)
	}
}

func TestProxyWithoutTarget(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	addr, end := startProxy(t, "127.0.0.1:0", gone.Addr().String())
	conn := dial(t, addr)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("somebody answered")
	}
	conn.Close()
	last, errs := end()
	if !strings.Contains(last, "1 accepted, 0 open, 1 failed") || !strings.Contains(errs, "connection refused") {
		t.Errorf("it says %q and %q", last, errs)
	}
}
