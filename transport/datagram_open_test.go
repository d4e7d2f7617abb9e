package transport_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// echoing is an endpoint that sends back what it gets.
func echoing(t *testing.T, l *loop.Loop, o transport.DatagramOptions) *transport.Endpoint {
	t.Helper()
	e, err := transport.Datagram(l, &datagramScript{got: func(e *transport.Endpoint, p transport.Packet) { e.SendTo(p.Data, p.From) }}, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func datagramPort(e *transport.Endpoint) string {
	_, port, _ := net.SplitHostPort(e.Info().Local.String())
	return port
}

func TestOpenDatagramLooksUpNames(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		server := echoing(t, l, transport.DatagramOptions{Local: "127.0.0.1:0"})
		for name, o := range map[string]transport.DatagramOptions{
			"a name to send to":   {Remote: "localhost:" + datagramPort(server), Network: "udp4"},
			"a name to bind":      {Local: "localhost:0", Remote: "127.0.0.1:" + datagramPort(server)},
			"two names":           {Local: "localhost:0", Remote: "localhost:" + datagramPort(server), Network: "udp4"},
			"addresses":           {Local: "127.0.0.1:0", Remote: "127.0.0.1:" + datagramPort(server)},
			"any local address":   {Local: ":0", Remote: "localhost:" + datagramPort(server), Network: "udp4"},
			"no local address":    {Remote: "127.0.0.1:" + datagramPort(server)},
			"an address to reuse": {Remote: "127.0.0.1:" + datagramPort(server), ReuseAddress: true},
		} {
			answer := ""
			transport.OpenDatagram(t.Context(), l, &datagramScript{
				made: func(e *transport.Endpoint) { e.SendTo([]byte(name), transport.Addr{}) },
				got: func(e *transport.Endpoint, p transport.Packet) {
					answer = string(p.Data)
					e.Close()
				},
				lost: func(*transport.Endpoint, error) { l.Stop() },
			}, o, func(err error) { t.Errorf("%s: %v", name, err); l.Stop() })
			run(t, l)
			if answer != name {
				t.Errorf("%s: the answer is %q", name, answer)
			}
		}
		server.Close()
	})
}

func TestOpenDatagramFails(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		gone, cancel := context.WithCancelCause(t.Context())
		because := errors.New("not needed")
		cancel(because)
		taken := echoing(t, l, transport.DatagramOptions{Local: "127.0.0.1:0"})
		for name, c := range map[string]struct {
			ctx  context.Context
			o    transport.DatagramOptions
			want func(error) bool
		}{
			"an unknown name": {t.Context(), transport.DatagramOptions{Remote: "no-such-host.invalid:7"}, func(err error) bool {
				var dns *net.DNSError
				return errors.As(err, &dns)
			}},
			"no port":      {t.Context(), transport.DatagramOptions{Remote: "localhost"}, func(err error) bool { return err != nil }},
			"a port taken": {t.Context(), transport.DatagramOptions{Local: "localhost:" + datagramPort(taken), Network: "udp4"}, func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }},
			"cancelled":    {gone, transport.DatagramOptions{Remote: "localhost:7"}, func(err error) bool { return errors.Is(err, because) }},
		} {
			var got error
			transport.OpenDatagram(c.ctx, l, &datagramScript{}, c.o, func(err error) { got = err; l.Stop() })
			run(t, l)
			var op *net.OpError
			if !c.want(got) || !errors.As(got, &op) {
				t.Errorf("%s: %v", name, got)
			}
		}
		taken.Close()
		l.RunOnce(0)
	})
}

// TestReuseAddress: with the option, and only with it, two endpoints have one address.
func TestReuseAddress(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		for _, reuse := range []bool{false, true} {
			first := echoing(t, l, transport.DatagramOptions{Local: "127.0.0.1:0", ReuseAddress: reuse})
			second, err := transport.Datagram(l, &datagramScript{}, transport.DatagramOptions{Local: "127.0.0.1:" + datagramPort(first), ReuseAddress: reuse})
			if reuse != (err == nil) || !reuse && !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("with %v: %v", reuse, err)
			}
			first.Close()
			if second != nil {
				second.Close()
			}
			l.RunOnce(0)
		}
	})
}
