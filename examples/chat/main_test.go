package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// client is the far end of a guest's connection.
type client struct {
	t *testing.T
	*net.TCPConn
	lines *bufio.Reader
}

// join connects and waits until the room has announced the guest.
func join(t *testing.T, addr string, id int) *client {
	t.Helper()
	conn := servertest.DialTCP(t, addr)
	c := &client{t, conn, bufio.NewReader(conn)}
	c.expect(fmt.Sprintf("* guest %d has come", id))
	return c
}

func (c *client) say(line string) {
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

func (c *client) expect(want string) {
	c.t.Helper()
	if got := c.next(); got != want {
		c.t.Fatalf("got %q; want %q", got, want)
	}
}

func TestLinesReachTheOtherGuests(t *testing.T) {
	addr := servertest.Listen(t, run)
	a, b, c := join(t, addr, 1), join(t, addr, 2), join(t, addr, 3)
	a.expect("* guest 2 has come")
	a.expect("* guest 3 has come")
	b.expect("* guest 3 has come")

	a.say("hello")
	b.expect("guest 1: hello")
	c.expect("guest 1: hello")
	b.say("hi")
	a.expect("guest 2: hi") // and not its own line
	c.expect("guest 2: hi")

	b.CloseWrite()
	a.expect("* guest 2 has left")
	c.expect("* guest 2 has left")
	if line, err := b.lines.ReadString('\n'); err != io.EOF {
		t.Errorf("the guest that left reads %q, %v; want EOF", line, err)
	}
}

func TestALineThatIsTooLongDisconnectsItsGuest(t *testing.T) {
	addr := servertest.Listen(t, run)
	a, b := join(t, addr, 1), join(t, addr, 2)
	a.expect("* guest 2 has come")
	// The server may close the connection before it has read all of it.
	b.Write([]byte(strings.Repeat("x", 1<<20)))
	a.expect("* guest 2 has left")
}

// TestASlowReaderIsDisconnected has a guest that never reads. The other guests get every
// line, in order.
func TestASlowReaderIsDisconnected(t *testing.T) {
	addr := servertest.Listen(t, run)
	a, b, slow := join(t, addr, 1), join(t, addr, 2), join(t, addr, 3)
	a.expect("* guest 2 has come")
	a.expect("* guest 3 has come")
	b.expect("* guest 3 has come")
	slow.SetReadBuffer(4096)

	const limit = 4096 // lines of 32 KB: far beyond the size of socket buffers
	long := strings.Repeat("x", 32<<10)
	for i := range limit {
		a.say(fmt.Sprint(i, long))
		got := b.next()
		if got == "* guest 3 has left" {
			a.expect(got)
			b.expect(fmt.Sprint("guest 1: ", i, long))
			return
		}
		if want := fmt.Sprint("guest 1: ", i, long); got != want {
			t.Fatalf("line %d: got %.40q", i, got)
		}
	}
	t.Fatalf("the guest that does not read was kept for %d lines", limit)
}
