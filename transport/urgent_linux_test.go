package transport_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestUrgentData: bytes that follow urgent data are delivered without waiting for the
// next packet. The urgent byte itself is not delivered, as in package net.
func TestUrgentData(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		var got []byte
		conn := make(chan *transport.Conn, 1)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) { conn <- c },
				data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
			}
		})
		peer := dial(t, s).(*net.TCPConn)
		<-conn
		raw, err := peer.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		on(t, l, func() { // which does not read meanwhile: it is one edge for all
			raw.Control(func(fd uintptr) {
				for i, part := range []string{"ab", "!", "cd"} {
					flags := 0
					if i == 1 {
						flags = syscall.MSG_OOB
					}
					if err := syscall.Sendto(int(fd), []byte(part), flags, nil); err != nil {
						t.Error(err)
					}
				}
			})
		})
		until.OnLoop(t, l, func() bool { return len(got) >= 4 })
		wantIdle(t, l)
		on(t, l, func() {
			if string(got) != "abcd" {
				t.Errorf("got %q", got)
			}
		})
	})
}
