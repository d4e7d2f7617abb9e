package transport_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// bufferSpy is a spy that is a BufferedProtocol.
type bufferSpy struct {
	*spy
	buffer func(c *transport.Conn) []byte
	last   []byte
}

func (p *bufferSpy) Buffer(c *transport.Conn) []byte {
	p.last = p.buffer(c)
	return p.last
}

func (p *bufferSpy) BufferUpdated(c *transport.Conn, n int) { p.DataReceived(c, p.last[:n]) }

// servingBuffered starts a server with a bufferSpy and connects to it.
func servingBuffered(t *testing.T, o loop.Options, p *spy, buffer func(c *transport.Conn) []byte) (*loop.Loop, net.Conn) {
	t.Helper()
	p.tb = t
	var s *transport.Server
	l := running(t, o, func(l *loop.Loop) {
		var err error
		s, err = transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol {
			return &bufferSpy{spy: p, buffer: buffer}
		}})
		if err != nil {
			t.Fatal(err)
		}
	})
	return l, dial(t, s)
}

// TestBufferedProtocol: a whole stream arrives through a small buffer, over many turns,
// so that other callbacks of the loop are not delayed.
func TestBufferedProtocol(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		var got []byte
		longest, inTurn := 0, 0
		lost := make(chan error, 1)
		p := &spy{
			data: func(c *transport.Conn, data []byte) {
				got = append(got, data...)
				if inTurn++; inTurn == 1 {
					c.Loop().CallSoon(func() { longest, inTurn = max(longest, inTurn), 0 })
				}
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
		_, peer := servingBuffered(t, o, p, func(*transport.Conn) []byte { return make([]byte, 10) })
		sent := block(20_000)
		peer.Write(sent)
		peer.Close()
		if err := <-lost; err != nil || !slices.Equal(got, sent) {
			t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
		}
		if longest > 100 {
			t.Errorf("%d reads in one turn", longest)
		}
	})
}

// TestPauseOrCloseInBuffer: PauseReading and Close take effect inside Buffer.
func TestPauseOrCloseInBuffer(t *testing.T) {
	paused := make(chan *transport.Conn, 1)
	calls := 0
	var got []byte
	p := &spy{data: func(c *transport.Conn, data []byte) { got = append(got, data...) }}
	l, peer := servingBuffered(t, loop.Options{}, p, func(c *transport.Conn) []byte {
		switch calls++; calls {
		case 1:
			c.PauseReading()
			paused <- c
		case 3:
			c.Close()
		}
		return make([]byte, 5)
	})
	peer.Write([]byte("hello, world"))
	c := <-paused
	on(t, l, func() {
		if len(got) != 0 {
			t.Errorf("got %q while paused", got)
		}
		c.ResumeReading()
	})
	drainAll(peer)
	on(t, l, func() {
		if string(got) != "hello" {
			t.Errorf("got %q", got)
		}
	})
}

// TestEmptyBuffer: the panic names the misuse, and only that connection ends.
func TestEmptyBuffer(t *testing.T) {
	said := make(chan string, 1)
	o := loop.Options{OnPanic: func(p *loop.PanicError) error {
		text, _ := p.Value.(string)
		said <- text
		return nil
	}}
	_, peer := servingBuffered(t, o, &spy{}, func(*transport.Conn) []byte { return nil })
	peer.Write([]byte("x"))
	if text := <-said; !strings.Contains(text, "Buffer returned an empty slice") {
		t.Errorf("panic %q", text)
	}
	drainAll(peer)
}

// TestSetProtocolBuffered: SetProtocol switches to and from a BufferedProtocol in the
// middle of the data.
func TestSetProtocolBuffered(t *testing.T) {
	var got []string
	var plain, own transport.Protocol
	lost := make(chan bool, 1)
	take := func(name string, next *transport.Protocol) *spy {
		return &spy{tb: t, isMade: true, lost: func(*transport.Conn, error) { lost <- true }, data: func(c *transport.Conn, data []byte) {
			if got = append(got, name+" "+string(data)); len(got) == 4 {
				c.Close()
				return
			}
			c.SetProtocol(*next)
			if c.Protocol() != *next {
				t.Error("Protocol did not return the protocol that was set")
			}
			c.Write([]byte("."))
		}}
	}
	plain = take("plain", &own)
	own = &bufferSpy{spy: take("own", &plain), buffer: func(*transport.Conn) []byte { return make([]byte, 3) }}
	_, s := serving(t, loop.Options{}, "unix", abstract(), transport.Options{}, func() *spy {
		return &spy{made: func(c *transport.Conn) {
			c.SetProtocol(plain)
			c.Write([]byte("."))
		}}
	})
	peer := dial(t, s)
	for _, part := range []string{"a", "b", "c", "d"} {
		peer.Read(make([]byte, 1))
		peer.Write([]byte(part))
	}
	drainAll(peer)
	<-lost
	if want := []string{"plain a", "own b", "plain c", "own d"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
