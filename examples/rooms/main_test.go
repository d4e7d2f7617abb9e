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

	"github.com/spindleloop/spindle/examples/internal/trial"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until the test ends. All its loops listen on one address.
func start(t *testing.T, loops int) (addr string) {
	t.Helper()
	s := trial.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", loops, out) })
	for range loops {
		_, at, _ := strings.Cut(s.Line(t), " listens on ")
		if addr != "" && at != addr {
			t.Fatalf("one loop listens on %s, another on %s", addr, at)
		}
		addr = at
	}
	return addr
}

// client is a guest from outside.
type client struct {
	t *testing.T
	*net.TCPConn
	lines *bufio.Reader
	name  string
	room  string
}

// join connects and waits until it is told of itself. Before that it may be told of
// those who came before: news is on its way to the other rooms for a while.
func join(t *testing.T, addr string) *client {
	t.Helper()
	conn := trial.Dial(t, "tcp", addr)
	c := &client{t: t, TCPConn: conn.(*net.TCPConn), lines: bufio.NewReader(conn), name: conn.LocalAddr().String()}
	for {
		line := c.hears("* ")
		if room, mine := strings.CutPrefix(line, "* "+c.name+" has come to room "); mine {
			c.room = room
			return c
		}
	}
}

func (c *client) says(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Fatal(err)
	}
}

// hears reads the next line, which must begin so.
func (c *client) hears(begin string) string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, begin) {
		c.t.Fatalf("heard %.60q, %v; want %.60q", line, err, begin)
	}
	return strings.TrimSuffix(line, "\n")
}

// fill has guests come until there is one in each of two rooms, each of whom has
// heard of all that came later. Linux spreads connections by a hash of their
// addresses: that none of so many goes to the second room does not happen.
func fill(t *testing.T, addr string) (guests []*client) {
	t.Helper()
	const most = 64
	rooms := map[string]bool{}
	for len(rooms) < 2 {
		if len(guests) == most && runtime.GOOS != "linux" {
			t.Skip("here the system does not spread connections")
		}
		if len(guests) == most {
			t.Fatalf("all %d guests are in one room", most)
		}
		c := join(t, addr)
		for _, g := range guests {
			g.hears("* " + c.name + " has come")
		}
		guests = append(guests, c)
		rooms[c.room] = true
	}
	return guests
}

func TestWhatOneSaysIsHeardInAllRooms(t *testing.T) {
	guests := fill(t, start(t, 2))
	first, last := guests[0], guests[len(guests)-1]
	if first.room == last.room {
		t.Fatal("the last one to come is the first of its room")
	}
	for _, speaker := range []*client{first, last} {
		for i := range 3 * queued { // in order, and everybody keeps up
			speaker.says(fmt.Sprint("line ", i))
			for _, g := range guests {
				if g != speaker {
					g.hears(fmt.Sprintf("%s: line %d\n", speaker.name, i))
				}
			}
		}
	}
	last.CloseWrite()
	for _, g := range guests[:len(guests)-1] {
		g.hears("* " + last.name + " has left\n") // and not what it said itself
	}
	if rest, err := io.ReadAll(last.lines); err != nil || len(rest) > 0 && string(rest) != "* "+last.name+" has left\n" {
		t.Errorf("who has left reads %q, %v", rest, err)
	}
}

// A guest who never reads has to leave; those in its room and in the other hear
// everything.
func TestASlowReaderHoldsUpNoRoom(t *testing.T) {
	guests := fill(t, start(t, 2))
	speaker, slow := guests[0], guests[len(guests)-1]
	others := guests[1 : len(guests)-1]
	slow.SetReadBuffer(4096)
	const limit = 4096 // lines of 32 KB: far beyond what sockets hold
	long := strings.Repeat("x", 32<<10)
	gone := make(chan struct{})
	go func() { // the speaker only hears that one has left
		defer close(gone)
		speaker.lines.ReadString('\n')
	}()
	for i := range limit {
		speaker.says(fmt.Sprint(i, long))
		for _, g := range others {
			line, err := g.lines.ReadString('\n')
			if line == "* "+slow.name+" has left\n" {
				line, err = g.lines.ReadString('\n')
			}
			if want := fmt.Sprintf("%s: %d%s\n", speaker.name, i, long); err != nil || line != want {
				t.Fatalf("line %d: heard %.60q, %v", i, line, err)
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

func TestAnAddressThatIsTaken(t *testing.T) {
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
