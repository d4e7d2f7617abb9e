package transport_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestCloseTheConnsOfOneServer: closing each flushes the connections of its server and leaves
// those of another server alone.
func TestCloseTheConnsOfOneServer(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		var servers [2]*transport.Server
		var peers [2]net.Conn
		made := 0
		for i := range servers {
			var err error
			servers[i], err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
				return &script{made: func(c *transport.Conn) {
					c.Write([]byte("hello"))
					if made++; made < len(servers) {
						return
					}
					servers[0].EachConn(func(c *transport.Conn) { c.Close() })
					servers[0].Drain(func() {
						if servers[0].Conns() != 0 || servers[1].Conns() != 1 {
							t.Errorf("%d and %d connections", servers[0].Conns(), servers[1].Conns())
						}
						l.Stop()
					})
				}}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if peers[i], err = net.Dial("tcp", servers[i].Addr().String()); err != nil {
				t.Fatal(err)
			}
			defer peers[i].Close()
		}
		run(t, l)
		if got, err := io.ReadAll(peers[0]); err != nil || string(got) != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestDrainThenAbort: Abort ends the connection of a peer that never reads.
func TestDrainThenAbort(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		drained, aborted := false, false
		var s *transport.Server
		var err error
		s, err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
			return &script{
				made: func(c *transport.Conn) {
					for c.Unsent() == 0 {
						c.Write(bytes.Repeat(big, 4))
					}
					s.Drain(func() { drained = true; l.Stop() })
					s.EachConn(func(c *transport.Conn) { c.Close() })
					l.CallLater(10*time.Millisecond, func() {
						if drained {
							t.Error("Close did not wait for unsent bytes")
						}
						aborted = true
						s.EachConn((*transport.Conn).Abort)
					})
				},
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		run(t, l)
		if !drained || !aborted || s.Conns() != 0 {
			t.Errorf("drained %v, aborted %v, %d connections", drained, aborted, s.Conns())
		}
	})
}
