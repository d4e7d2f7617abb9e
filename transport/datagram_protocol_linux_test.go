package transport_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
	"golang.org/x/sys/unix"
)

// TestAnotherProtocol: a socket of another protocol than UDP is passed as Sock.
func TestAnotherProtocol(t *testing.T) {
	open := func() *os.File {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE)
		if err != nil {
			t.Skip("UDP-Lite: ", err)
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "udplite")
	}
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		a, b := open(), open()
		defer a.Close()
		defer b.Close()
		server := echoing(t, l, transport.DatagramOptions{Sock: a})
		answer := ""
		_, err := transport.Datagram(l, &datagramScript{
			made: func(e *transport.Endpoint) {
				e.SendTo([]byte("hello"), transport.Addr{AddrPort: netip.MustParseAddrPort(server.Info().Local.String())})
			},
			got: func(e *transport.Endpoint, p transport.Packet) {
				answer = string(p.Data)
				e.Close()
			},
			lost: func(*transport.Endpoint, error) { l.Stop() },
		}, transport.DatagramOptions{Sock: b})
		if err != nil {
			t.Fatal(err)
		}
		run(t, l)
		if answer != "hello" {
			t.Errorf("the answer is %q", answer)
		}
		server.Close()
		l.RunOnce(0)
	})
}
