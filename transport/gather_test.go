package transport_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// twoConns returns two connections of a server, and their peers.
func twoConns(t *testing.T) (l *loop.Loop, conns [2]*transport.Conn, peers [2]net.Conn) {
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

// TestGatheredWritesOfTwoConns: when gathered writes of two connections alternate, each
// connection sends all of its own before it closes.
func TestGatheredWritesOfTwoConns(t *testing.T) {
	for name, end := range map[string]func(*transport.Conn){
		"Close":    func(c *transport.Conn) { c.Close() },
		"WriteEOF": func(c *transport.Conn) { c.WriteEOF() },
	} {
		t.Run(name, func(t *testing.T) {
			l, conns, peers := twoConns(t)
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

// TestGatherBufferOverflow: small writes that exceed the gather buffer, and a large one
// after them, keep their order.
func TestGatherBufferOverflow(t *testing.T) {
	l, conns, peers := twoConns(t)
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

// TestGatheredWriteOnFullSocket: a small write that causes a flush, which then fills the
// socket, is queued in order.
func TestGatheredWriteOnFullSocket(t *testing.T) {
	l, conns, peers := twoConns(t)
	sent := block(800_000)
	on(t, l, func() {
		for rest := sent; len(rest) > 0; rest = rest[4000:] {
			conns[0].Write(rest[:4000])
		}
		conns[0].Close()
		conns[1].Close()
	})
	if got, err := io.ReadAll(peers[0]); !bytes.Equal(got, sent) || err != nil {
		t.Errorf("%d of %d bytes arrived, %v", len(got), len(sent), err)
	}
}

// TestWritevManyBuffers: buffers beyond what the system takes in one call are sent
// without another event.
func TestWritevManyBuffers(t *testing.T) {
	l, conns, peers := twoConns(t)
	sent := block(3 * 2500)
	on(t, l, func() {
		var bufs [][]byte
		for i := 0; i < len(sent); i += 3 {
			bufs = append(bufs, sent[i:i+3], nil)
		}
		if n, err := conns[0].Writev(bufs); n != len(sent) || err != nil {
			t.Errorf("Writev returned %d, %v", n, err)
		}
		if n := conns[0].Unsent(); n != 0 {
			t.Errorf("%d bytes are unsent although the socket is writable", n)
		}
	})
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(peers[0], got); err != nil || !bytes.Equal(got, sent) {
		t.Error(err)
	}
	on(t, l, func() { conns[0].Abort(); conns[1].Abort() })
}
