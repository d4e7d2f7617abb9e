package transport_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestDebugPoisonsLentData: in debug mode, data that a callback retains is overwritten.
func TestDebugPoisonsLentData(t *testing.T) {
	for _, debug := range []bool{true, false} {
		l, err := loop.New(loop.Options{Debug: debug})
		if err != nil {
			t.Fatal(err)
		}
		var kept []byte
		keep := func(data []byte) {
			if string(data) != "hello" {
				t.Errorf("lent: %q", data)
			}
			kept = data
			l.CallSoon(l.Stop)
		}
		check := func(what string) {
			t.Helper()
			run(t, l)
			if bytes.Equal(kept, []byte("\xdb\xdb\xdb\xdb\xdb")) != debug {
				t.Errorf("%s, debug %v: kept %q", what, debug, kept)
			}
		}
		s, err := transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol {
			return &spy{tb: t, data: func(c *transport.Conn, data []byte) {
				keep(data)
				c.Abort()
			}}
		}})
		if err != nil {
			t.Fatal(err)
		}
		dial(t, s).Write([]byte("hello"))
		check("data")
		e, err := transport.Datagram(l, &datagramScript{got: func(_ *transport.Endpoint, p transport.Packet) { keep(p.Data) }},
			transport.DatagramOptions{Local: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.SendTo([]byte("hello"), transport.Addr{AddrPort: e.Info().Local.(*net.UDPAddr).AddrPort()}); err != nil {
			t.Fatal(err)
		}
		check("datagram")
		e.Close()
		s.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
