package transport_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// ownBuffer is a spy that has its data read into a buffer of its own.
type ownBuffer struct {
	*spy
	buffer func(c *transport.Conn) []byte
	last   []byte
}

func (p *ownBuffer) Buffer(c *transport.Conn) []byte {
	p.last = p.buffer(c)
	return p.last
}

func (p *ownBuffer) BufferUpdated(c *transport.Conn, n int) { p.DataReceived(c, p.last[:n]) }

// buffering is a server of one connection with a buffer of its own.
func buffering(t *testing.T, o loop.Options, p *spy, buffer func(c *transport.Conn) []byte) (*loop.Loop, net.Conn) {
	t.Helper()
	p.tb = t
	var s *transport.Server
	l := steady(t, o, func(l *loop.Loop) {
		var err error
		s, err = transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol {
			return &ownBuffer{spy: p, buffer: buffer}
		}})
		if err != nil {
			t.Fatal(err)
		}
	})
	return l, dial(t, s)
}

// TestOwnBuffer: all of a stream comes through a small buffer, in many turns and
// without holding up the others of the loop.
func TestOwnBuffer(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
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
		_, peer := buffering(t, o, p, func(*transport.Conn) []byte { return make([]byte, 10) })
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

// TestPauseInBuffer: who pauses or closes when he is asked for a buffer is obeyed.
func TestPauseInBuffer(t *testing.T) {
	paused := make(chan *transport.Conn, 1)
	asked := 0
	var got []byte
	p := &spy{data: func(c *transport.Conn, data []byte) { got = append(got, data...) }}
	l, peer := buffering(t, loop.Options{}, p, func(c *transport.Conn) []byte {
		switch asked++; asked {
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

// TestEmptyBuffer: the misuse is named, and costs that connection.
func TestEmptyBuffer(t *testing.T) {
	said := make(chan string, 1)
	o := loop.Options{OnPanic: func(p *loop.PanicError) error {
		text, _ := p.Value.(string)
		said <- text
		return nil
	}}
	_, peer := buffering(t, o, &spy{}, func(*transport.Conn) []byte { return nil })
	peer.Write([]byte("x"))
	if text := <-said; !strings.Contains(text, "Buffer returned an empty slice") {
		t.Errorf("%q", text)
	}
	drainAll(peer)
}

// TestSwitchToAndFromABuffer: SetProtocol in the middle of the data.
func TestSwitchToAndFromABuffer(t *testing.T) {
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
				t.Error("another protocol")
			}
			c.Write([]byte("."))
		}}
	}
	plain = take("plain", &own)
	own = &ownBuffer{spy: take("own", &plain), buffer: func(*transport.Conn) []byte { return make([]byte, 3) }}
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
		t.Errorf("%q", got)
	}
}

// TestAfterFlush: called in order, once, never inside a call, and with the truth:
// what was sent before an abort was sent; whom a panic stands in front of hears too.
func TestAfterFlush(t *testing.T) {
	var told []string
	say := func(name string) func(error) {
		return func(err error) {
			switch {
			case err == nil:
				name += " sent"
			case errors.Is(err, net.ErrClosed):
				name += " dropped"
			}
			told = append(told, name)
		}
	}
	var atLost []string
	lost := make(chan bool)
	_, s := serving(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }}, "unix", abstract(), transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.AfterFlush(say("nothing"))
				c.Write([]byte("x"))
				c.AfterFlush(say("little"))
				if c.Info().Out != 1 {
					t.Errorf("%+v", c.Info())
				}
				c.Write(make([]byte, 1<<20))
				c.AfterFlush(func(error) { panic("oops") })
				c.AfterFlush(say("much"))
				if len(told) != 0 {
					t.Errorf("%q inside a call", told)
				}
				c.Abort()
			},
			lost: func(c *transport.Conn, err error) {
				atLost = slices.Clone(told)
				close(lost)
			},
		}
	})
	dial(t, s) // and does not read
	<-lost
	if want := []string{"nothing sent", "little sent", "much dropped"}; !slices.Equal(atLost, want) {
		t.Errorf("%q", atLost)
	}
}
