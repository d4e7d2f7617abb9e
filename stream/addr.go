package stream

import (
	"context"
	"net"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

type addrs struct{ local, remote net.Addr }

func (c *Conn) network(a net.Addr) string {
	switch {
	case c.pipe:
		return "pipe"
	case a != nil:
		return a.Network()
	case c.unix:
		return "unix"
	}
	return "tcp"
}

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.loadAddrs().local }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.loadAddrs().remote }

// loadAddrs asks the system for the addresses on first use, because most servers
// never need them. The addresses of a connection that is closed by then are unknown.
func (c *Conn) loadAddrs() *addrs {
	if a := c.addrs.Load(); a != nil {
		return a
	}
	query := func() {
		a := &addrs{}
		if fd := c.socket.FD(); fd >= 0 && !c.pipe {
			network := "tcp"
			if local, err := c.registry().K.LocalAddr(fd); err == nil {
				network = sock.NetworkOf(local.Family(), kernel.Stream)
			}
			a.local, a.remote = c.registry().Addrs(fd, network)
		}
		unknown := sock.NetAddr(c.network(a.local), kernel.Addr{})
		if a.local == nil {
			a.local = unknown
		}
		if a.remote == nil {
			a.remote = unknown
		}
		c.addrs.CompareAndSwap(nil, a)
	}
	if c.loop().Owns() {
		query()
	} else if _, err := c.fromGoroutine("get", func(context.Context) (int, error) { query(); return 0, nil }); err != nil {
		unknown := sock.NetAddr(c.network(nil), kernel.Addr{})
		return &addrs{unknown, unknown}
	}
	return c.addrs.Load()
}
