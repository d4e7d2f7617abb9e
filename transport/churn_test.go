package transport_test

import (
	"math/rand/v2"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// connTally is a protocol for all connections of a server.
type connTally struct{ made, lost, failed int }

func (p *connTally) ConnectionMade(c *transport.Conn)            { p.made++ }
func (p *connTally) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (p *connTally) ConnectionLost(c *transport.Conn, err error) {
	if p.lost++; err != nil {
		p.failed++
	}
}

// shortClient is a client that gets some bytes echoed and then ends the connection in
// one of several ways.
type shortClient struct {
	way  int
	got  int
	over func(err error)
}

func (v *shortClient) ConnectionMade(c *transport.Conn) {
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

func (v *shortClient) DataReceived(c *transport.Conn, data []byte) {
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
		c.Write(make([]byte, 5000)) // never read
		c.SetLinger(0)
		c.Abort()
	}
}

func (v *shortClient) ConnectionLost(c *transport.Conn, err error) { v.over(err) }

// churn makes n short connections, some of them at once, and checks that each ends once
// on each side.
func churn(t *testing.T, network, address string, n, atOnce int) {
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &connTally{}
	s, err := transport.Listen(l, network, address, transport.Options{Protocol: func() transport.Protocol { return p }})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	begun, ended := 0, 0
	var next func()
	next = func() {
		begun++
		v := &shortClient{way: rng.IntN(7)}
		over := false
		v.over = func(err error) {
			if over {
				t.Error("a connection ended twice")
			}
			if over = true; v.way > 1 && v.got < 10 {
				t.Errorf("way %d: %d bytes echoed, %v", v.way, v.got, err)
			}
			if ended++; begun < n {
				next()
			} else if ended == n {
				s.Drain(l.Stop)
			}
		}
		transport.Connect(t.Context(), l, network, s.Addr().String(), transport.ConnectOptions{Protocol: v, OnError: func(err error) {
			t.Error(err)
			v.over(err)
		}})
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
		t.Errorf("left in the loop: %+v", stats)
	}
}

// TestConnectionChurn: 50,000 short connections end in every way, from both sides.
func TestConnectionChurn(t *testing.T) {
	n := 50_000
	if short.UnderRace || !short.Full() {
		n = 5000
	}
	t.Run("unix", func(t *testing.T) { churn(t, "unix", abstract(), n*9/10, 200) })
	t.Run("tcp", func(t *testing.T) { churn(t, "tcp", "127.0.0.1:0", n/10, 200) })
}
