package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until the test ends. All its loops listen on one address.
func start(t *testing.T, loops int) (addr string) {
	t.Helper()
	s := servertest.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", loops, out) })
	for range loops {
		_, at, _ := strings.Cut(s.Line(t), " listens on ")
		if addr != "" && at != addr {
			t.Fatalf("one loop listens on %s, another on %s", addr, at)
		}
		addr = at
	}
	return addr
}

// client is the far end of a guest's connection.
type client struct {
	t *testing.T
	*net.TCPConn
	lines *bufio.Reader
	name  string
	room  string
}

// join connects and waits until the guest is announced. Announcements of earlier guests may
// come before that, because messages take a while to reach the other rooms.
func join(t *testing.T, addr string) *client {
	t.Helper()
	conn := servertest.Dial(t, "tcp", addr)
	c := &client{t: t, TCPConn: conn.(*net.TCPConn), lines: bufio.NewReader(conn), name: conn.LocalAddr().String()}
	for {
		line := c.expect("* ")
		if room, mine := strings.CutPrefix(line, "* "+c.name+" has come to room "); mine {
			c.room = room
			return c
		}
	}
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads the next line, which must begin with begin.
func (c *client) expect(begin string) string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, begin) {
		c.t.Fatalf("got %.60q, %v; want %.60q", line, err, begin)
	}
	return strings.TrimSuffix(line, "\n")
}

// fill connects guests until each of two rooms has one. Each guest has seen the
// announcements of all later ones. Linux distributes connections by a hash of their
// addresses, so that with this many guests both rooms get some.
func fill(t *testing.T, addr string) (guests []*client) {
	t.Helper()
	const most = 64
	rooms := map[string]bool{}
	for len(rooms) < 2 {
		if len(guests) == most && runtime.GOOS != "linux" {
			t.Skip("this system does not distribute connections")
		}
		if len(guests) == most {
			t.Fatalf("all %d guests are in one room", most)
		}
		c := join(t, addr)
		for _, g := range guests {
			g.expect("* " + c.name + " has come")
		}
		guests = append(guests, c)
		rooms[c.room] = true
	}
	return guests
}

func TestLinesReachAllRooms(t *testing.T) {
	guests := fill(t, start(t, 2))
	first, last := guests[0], guests[len(guests)-1]
	if first.room == last.room {
		t.Fatal("the first and the last guest are in one room")
	}
	for _, speaker := range []*client{first, last} {
		for i := range 3 * queueLength { // in order
			speaker.say(fmt.Sprint("line ", i))
			for _, g := range guests {
				if g != speaker {
					g.expect(fmt.Sprintf("%s: line %d\n", speaker.name, i))
				}
			}
		}
	}
	last.CloseWrite()
	for _, g := range guests[:len(guests)-1] {
		g.expect("* " + last.name + " has left\n") // and not its own lines
	}
	if rest, err := io.ReadAll(last.lines); err != nil || len(rest) > 0 && string(rest) != "* "+last.name+" has left\n" {
		t.Errorf("the guest that left reads %q, %v", rest, err)
	}
}

// TestASlowReaderIsDisconnected has a guest that never reads. The guests of both rooms get
// every line.
func TestASlowReaderIsDisconnected(t *testing.T) {
	guests := fill(t, start(t, 2))
	speaker, slow := guests[0], guests[len(guests)-1]
	others := guests[1 : len(guests)-1]
	slow.SetReadBuffer(4096)
	const limit = 4096 // lines of 32 KB: far beyond the size of socket buffers
	long := strings.Repeat("x", 32<<10)
	gone := make(chan struct{})
	go func() { // the speaker gets only the announcement
		defer close(gone)
		speaker.lines.ReadString('\n')
	}()
	for i := range limit {
		speaker.say(fmt.Sprint(i, long))
		for _, g := range others {
			line, err := g.lines.ReadString('\n')
			if line == "* "+slow.name+" has left\n" {
				line, err = g.lines.ReadString('\n')
			}
			if want := fmt.Sprintf("%s: %d%s\n", speaker.name, i, long); err != nil || line != want {
				t.Fatalf("line %d: got %.60q, %v", i, line, err)
			}
		}
		select {
		case <-gone:
			return
		default:
		}
	}
	t.Fatalf("the guest that does not read was kept for %d lines", limit)
}

func TestAnAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = run(t.Context(), ln.Addr().String(), 3, io.Discard)
	if failed := (*net.OpError)(nil); !errors.As(err, &failed) || failed.Op != "listen" {
		t.Errorf("it ended with %v", err)
	}
}
