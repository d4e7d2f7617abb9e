package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
)

var passing = regexp.MustCompile(`^spindle proxy: (\S+) → (\S+)\n$`)

// startProxy runs the command until end is called, which returns its last line and its
// standard error.
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
		t.Fatalf("the command prints %q, %v, and on stderr %q", line, err, errs.String())
	}
	return said[1], func() (string, string) {
		cancel()
		rest, _ := io.ReadAll(lines)
		if code := <-exit; code != 0 {
			t.Errorf("exit code %d", code)
		}
		draining, last, _ := strings.Cut(string(rest), "\n")
		if draining != "spindle proxy: draining for at most 5s; interrupt again to stop at once" {
			t.Errorf("interrupted, it prints %q", draining)
		}
		return last, errs.String()
	}
}

// TestProxy sends bytes in both directions and checks the counters.
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
		t.Fatalf("the last line is %q: %v", last, err)
	}
	if accepted != 103 || open != 0 || failed != 0 || up < 5<<20 || up != down || errs != "" {
		t.Errorf("it prints %q and %q", last, errs)
	}
}

// closedAddr is an address where nothing listens: the system never assigns port 1 to a
// program that asks for a free port.
const closedAddr = "127.0.0.1:1"

func TestProxyWithoutTarget(t *testing.T) {
	addr, end := startProxy(t, "127.0.0.1:0", closedAddr)
	hangsUp(t, addr)
	last, errs := end()
	if !strings.Contains(last, "1 accepted, 0 open, 1 failed") || !strings.Contains(errs, "connection refused") {
		t.Errorf("it prints %q and %q", last, errs)
	}
}

// TestProxyOfItself checks that a proxy that forwards to itself ends with the first
// connection, before one client uses up all descriptors.
func TestProxyOfItself(t *testing.T) {
	// Below the ephemeral ports, so that no other program gets it.
	itself := fmt.Sprintf("127.0.0.1:%d", 20000+os.Getpid()%10000)
	r, w := io.Pipe()
	var errs bytes.Buffer
	exit := make(chan int, 1)
	go func() {
		exit <- execute(t.Context(), []string{"proxy", itself, itself}, w, &errs)
		w.Close()
	}()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, r)
	hangsUp(t, itself)
	if code := <-exit; code != 2 || !strings.HasSuffix(errs.String(), "spindle proxy: the target is this proxy itself\n") {
		t.Errorf("exit code %d, and it prints %q", code, errs.String())
	}
}

// hangsUp connects, and waits until the proxy closes the connection.
func hangsUp(t *testing.T, addr string) {
	t.Helper()
	conn := dial(t, addr)
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the proxy sent an answer")
	}
}
