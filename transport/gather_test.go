package transport_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// pairOf is a server with two connections, and their peers.
func pairOf(t *testing.T) (l *loop.Loop, conns [2]*transport.Conn, peers [2]net.Conn) {
	t.Helper()
	made := make(chan *transport.Conn, 2)
	l, s := serving(t, loop.Options{}, "unix", abstract(), transport.Options{}, func() *spy {
		return &spy{made: func(c *transport.Conn) { made <- c }}
	})
	for i := range conns {
		peers[i] = dial(t, s)
		conns[i] = <-made
	}
	return l, conns, peers
}

// TestSmallWritesOfTwoInTurns: what is gathered of one behind another's is sent
// before its end.
func TestSmallWritesOfTwoInTurns(t *testing.T) {
	for name, end := range map[string]func(*transport.Conn){
		"Close":    func(c *transport.Conn) { c.Close() },
		"WriteEOF": func(c *transport.Conn) { c.WriteEOF() },
	} {
		t.Run(name, func(t *testing.T) {
			l, conns, peers := pairOf(t)
			on(t, l, func() {
				for _, part := range []string{"one ", "two ", "three"} {
					for _, c := range conns {
						c.Write([]byte(part))
					}
				}
				end(conns[0])
				end(conns[1])
			})
			for i, c := range peers {
				if got, err := io.ReadAll(c); string(got) != "one two three" || err != nil {
					t.Errorf("peer %d got %q, %v", i, got, err)
				}
				c.Close()
			}
		})
	}
}

// TestMoreThanIsGathered: small writes beyond what is kept for a turn, and a large
// one behind them, keep their order.
func TestMoreThanIsGathered(t *testing.T) {
	l, conns, peers := pairOf(t)
	sent := block(500_000)
	on(t, l, func() {
		rest := sent
		for _, size := range []int{4096, 1, 4097, 100, 4000} {
			for range 25 {
				n := min(size, len(rest))
				conns[0].Write(rest[:n])
				conns[1].Write(rest[:n])
				rest = rest[n:]
			}
		}
		for _, c := range conns {
			c.Write(rest)
			c.Close()
		}
	})
	for i, c := range peers {
		if got, err := io.ReadAll(c); !bytes.Equal(got, sent) || err != nil {
			t.Errorf("peer %d got %d of %d bytes, %v", i, len(got), len(sent), err)
		}
	}
}

// TestGatheredAtAFullSocket: the small write that makes the others be sent, and so
// finds that there is no room, keeps its place.
func TestGatheredAtAFullSocket(t *testing.T) {
	l, conns, peers := pairOf(t)
	sent := block(800_000)
	on(t, l, func() {
		for rest := sent; len(rest) > 0; rest = rest[4000:] {
			conns[0].Write(rest[:4000])
		}
		conns[0].Close()
		conns[1].Close()
	})
	if got, err := io.ReadAll(peers[0]); !bytes.Equal(got, sent) || err != nil {
		t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
	}
}

// TestMoreBuffersThanTheSystemTakes: the rest is sent although nothing else happens.
func TestMoreBuffersThanTheSystemTakes(t *testing.T) {
	l, conns, peers := pairOf(t)
	sent := block(3 * 2500)
	on(t, l, func() {
		var bufs [][]byte
		for i := 0; i < len(sent); i += 3 {
			bufs = append(bufs, sent[i:i+3], nil)
		}
		if n, err := conns[0].Writev(bufs); n != len(sent) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n := conns[0].Unsent(); n != 0 {
			t.Errorf("%d bytes wait although there is room", n)
		}
	})
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(peers[0], got); err != nil || !bytes.Equal(got, sent) {
		t.Error(err)
	}
	on(t, l, func() { conns[0].Abort(); conns[1].Abort() })
}

// deaf is a system in which sending fails.
type deaf struct{ kernel.Sockets }

func (deaf) Send(int, []byte) (int, error)    { return 0, syscall.ECONNRESET }
func (deaf) Sendv(int, [][]byte) (int, error) { return -1, syscall.ECONNRESET }

// TestAfterFlushOfAFailure: what could not be sent is not told of as sent.
func TestAfterFlushOfAFailure(t *testing.T) {
	for name, write := range map[string]func(c *transport.Conn){
		"small":   func(c *transport.Conn) { c.Write([]byte("x")) },
		"closed":  func(c *transport.Conn) { c.Write([]byte("x")); c.Close() },
		"large":   func(c *transport.Conn) { c.Write(make([]byte, 10_000)) },
		"buffers": func(c *transport.Conn) { c.Writev([][]byte{make([]byte, 5000), make([]byte, 5000)}) },
	} {
		t.Run(name, func(t *testing.T) {
			k, err := kernel.Open("")
			if err != nil {
				t.Fatal(err)
			}
			k.Sockets = deaf{k.Sockets}
			flushed, lost := make(chan error, 1), make(chan error, 1)
			_, s := serving(t, loop.Options{Kernel: k}, "unix", abstract(), transport.Options{}, func() *spy {
				return &spy{
					made: func(c *transport.Conn) {
						write(c)
						c.AfterFlush(func(err error) { flushed <- err })
					},
					lost: func(c *transport.Conn, err error) { lost <- err },
				}
			})
			dial(t, s)
			if err := <-flushed; err == nil {
				t.Error("flushed")
			}
			if err := <-lost; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("lost with %v", err)
			}
		})
	}
}

// TestAResponseBeforeAReset: a peer that answers and resets is heard, although the
// end of what was written to it cannot be sent any more.
func TestAResponseBeforeAReset(t *testing.T) {
	var got []byte
	made, lost := make(chan *transport.Conn, 1), make(chan error, 1)
	l, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) { made <- c },
			data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer := dial(t, s)
	c := <-made
	on(t, l, func() { // the loop does not look meanwhile
		peer.Write([]byte("so there"))
		reset(t, peer)
		if err := c.WriteEOF(); err != nil {
			t.Error(err)
		}
	})
	if err := <-lost; !errors.Is(err, syscall.ECONNRESET) || string(got) != "so there" {
		t.Errorf("got %q, lost with %v", got, err)
	}
}
