package transport_test

import (
	"math/rand/v2"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// tally is a protocol for all the connections of a server.
type tally struct{ made, lost, failed int }

func (p *tally) ConnectionMade(c *transport.Conn)            { p.made++ }
func (p *tally) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (p *tally) ConnectionLost(c *transport.Conn, err error) {
	if p.lost++; err != nil {
		p.failed++
	}
}

// visitor is a client that comes, has some bytes echoed, and goes in a way of its
// own.
type visitor struct {
	way  int
	got  int
	over func(err error)
}

func (v *visitor) ConnectionMade(c *transport.Conn) {
	c.Write([]byte("0123456789"))
	switch v.way {
	case 0:
		c.Abort()
	case 1:
		c.Close()
	case 2:
		c.WriteEOF()
	}
}

func (v *visitor) DataReceived(c *transport.Conn, data []byte) {
	if v.got += len(data); v.got < 10 {
		return
	}
	switch v.way {
	case 3:
		c.Close()
	case 4: // a reset, on TCP
		c.SetLinger(0)
		c.Abort()
	case 5:
		c.WriteEOF()
	case 6:
		c.Write(make([]byte, 5000)) // which nobody will read
		c.SetLinger(0)
		c.Abort()
	}
}

func (v *visitor) ConnectionLost(c *transport.Conn, err error) { v.over(err) }

// storm makes n short connections, some at once, and checks that each comes to one
// end at each side.
func storm(t *testing.T, network, address string, n, atOnce int) {
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &tally{}
	s, err := transport.Listen(l, network, address, transport.Options{Protocol: func() transport.Protocol { return p }})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	begun, ended := 0, 0
	var next func()
	next = func() {
		begun++
		v := &visitor{way: rng.IntN(7)}
		over := false
		v.over = func(err error) {
			if over {
				t.Error("a connection ended twice")
			}
			if over = true; v.way > 1 && v.got < 10 {
				t.Errorf("way %d: %d bytes came back, %v", v.way, v.got, err)
			}
			if ended++; begun < n {
				next()
			} else if ended == n {
				s.Drain(l.Stop)
			}
		}
		transport.Connect(t.Context(), l, network, s.Addr().String(), v, transport.ConnectOptions{}, func(err error) {
			t.Error(err)
			v.over(err)
		})
	}
	for range atOnce {
		next()
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.lost != p.made || ended != n || s.Conns() != 0 {
		t.Errorf("%+v, %d of %d ended, %d open", *p, ended, n, s.Conns())
	}
	if stats := l.Stats(); stats.FDs != 0 || stats.Timers != 0 || stats.Panics != 0 {
		t.Errorf("left: %+v", stats)
	}
}

// TestStorm: 50,000 short connections, ended in every way from both sides.
func TestStorm(t *testing.T) {
	n := 50_000
	if underRace || testing.Short() {
		n = 5000
	}
	t.Run("unix", func(t *testing.T) { storm(t, "unix", abstract(), n*9/10, 200) })
	t.Run("tcp", func(t *testing.T) { storm(t, "tcp", "127.0.0.1:0", n/10, 200) })
}
