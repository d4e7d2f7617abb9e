package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/examples/internal/trial"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until the test ends.
func start(t *testing.T) (addr string) {
	t.Helper()
	return trial.Start(t, func(ctx context.Context, out io.Writer) error {
		return spindle.Run(ctx, func(ctx context.Context) error { return serve(ctx, 0, out) })
	}).Addr(t)
}

// client is a guest from outside.
type client struct {
	t *testing.T
	*net.TCPConn
	lines *bufio.Reader
}

// join connects and waits for the room to take notice.
func join(t *testing.T, addr string, id int) *client {
	t.Helper()
	conn := trial.Dial(t, "tcp", addr)
	c := &client{t, conn.(*net.TCPConn), bufio.NewReader(conn)}
	c.hears(fmt.Sprintf("* guest %d has come", id))
	return c
}

func (c *client) says(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatalf("after %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (c *client) hears(want string) {
	c.t.Helper()
	if got := c.next(); got != want {
		c.t.Fatalf("heard %q; want %q", got, want)
	}
}

func TestTheOthersHearWhatOneSays(t *testing.T) {
	addr := start(t)
	a, b, c := join(t, addr, 1), join(t, addr, 2), join(t, addr, 3)
	a.hears("* guest 2 has come")
	a.hears("* guest 3 has come")
	b.hears("* guest 3 has come")

	a.says("hello")
	b.hears("guest 1: hello")
	c.hears("guest 1: hello")
	b.says("hi")
	a.hears("guest 2: hi") // and not its own line
	c.hears("guest 2: hi")

	b.CloseWrite()
	a.hears("* guest 2 has left")
	c.hears("* guest 2 has left")
	if _, err := b.lines.ReadString('\n'); err != io.EOF {
		t.Errorf("who has left reads %v; want the end", err)
	}
}

func TestALineWithoutEndMakesItsGuestLeave(t *testing.T) {
	addr := start(t)
	a, b := join(t, addr, 1), join(t, addr, 2)
	a.hears("* guest 2 has come")
	// The server may close before it has read all of it.
	b.Write([]byte(strings.Repeat("x", 1<<20)))
	a.hears("* guest 2 has left")
}

// One guest never reads. The others get every line, in order, and it has to
// leave.
func TestASlowReaderHoldsUpNobody(t *testing.T) {
	addr := start(t)
	a, b, slow := join(t, addr, 1), join(t, addr, 2), join(t, addr, 3)
	a.hears("* guest 2 has come")
	a.hears("* guest 3 has come")
	b.hears("* guest 3 has come")
	slow.SetReadBuffer(4096)

	const limit = 4096 // lines of 32 KB: far beyond what sockets hold
	long := strings.Repeat("x", 32<<10)
	for i := range limit {
		a.says(fmt.Sprint(i, long))
		heard := b.next()
		if heard == "* guest 3 has left" {
			a.hears(heard)
			b.hears(fmt.Sprint("guest 1: ", i, long))
			return
		}
		if want := fmt.Sprint("guest 1: ", i, long); heard != want {
			t.Fatalf("line %d: heard %.40q", i, heard)
		}
	}
	t.Fatalf("the guest that does not read was kept for %d lines", limit)
}
