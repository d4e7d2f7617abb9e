package cancelpoints_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

type prepareFunc = func(context.Context, *spindle.Nursery, func(func())) (func(context.Context) error, error)

// listening prepares a listener.
func listening(call func(ctx context.Context, ln *stream.Listener) error) prepareFunc {
	return func(ctx context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		after(func() { ln.Close() })
		return func(ctx context.Context) error { return call(ctx, ln) }, nil
	}
}

// connected prepares two ends of a connection. The other one does nothing.
func connected(call func(ctx context.Context, c *stream.Conn) error) prepareFunc {
	return func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		accepted := spindle.Spawn(n, func(context.Context) (*stream.Conn, error) { return ln.AcceptConn() })
		c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return nil, err
		}
		after(func() { c.Close() })
		other, err := accepted.Await(ctx)
		if err != nil {
			return nil, err
		}
		after(func() { other.Close() })
		return func(ctx context.Context) error { return call(ctx, c) }, nil
	}
}

// packets prepares a datagram socket that receives nothing.
func packets(call func(c *stream.PacketConn) error) prepareFunc {
	return func(ctx context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		c, err := stream.ListenPacket(ctx, "udp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		after(func() { c.Close() })
		return func(context.Context) error { return call(c) }, nil
	}
}

// huge is more than a socket takes.
var huge = make([]byte, 16<<20)

// writeHuge writes until the connection takes no more.
func writeHuge(w io.Writer) error {
	_, err := w.Write(huge)
	return err
}

var (
	authority = tlstest.NewAuthority()
	asClient  = stream.TLS{Config: &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"}}
	asServer  = stream.TLS{Config: &tls.Config{Certificates: []tls.Certificate{authority.Issue("localhost")}}}
)

// secured prepares a TLS connection after its handshake.
func secured(call func(c *stream.TLSConn) error) prepareFunc {
	return func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		accepted := spindle.Spawn(n, func(ctx context.Context) (*stream.TLSConn, error) {
			c, err := ln.AcceptConn()
			if err != nil {
				return nil, err
			}
			secure := asServer.Server(c)
			return secure, secure.HandshakeContext(ctx)
		})
		c, err := asClient.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return nil, err
		}
		after(func() { c.NetConn().Close() })
		other, err := accepted.Await(ctx)
		if err != nil {
			return nil, err
		}
		after(func() { other.NetConn().Close() })
		return func(context.Context) error { return call(c) }, nil
	}
}

// opened is a call that makes something that is closed at once.
func opened[C io.Closer](open func(ctx context.Context) (C, error)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		c, err := open(ctx)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// streamWaits are the waits of package stream.
var streamWaits = []wait{
	{name: "stream.Listen stream.ListenConfig.Listen", ends: true, prepare: ready(opened(func(ctx context.Context) (*stream.Listener, error) {
		return stream.Listen(ctx, "tcp", "127.0.0.1:0")
	}))},
	{name: "stream.ListenPacket", ends: true, prepare: ready(opened(func(ctx context.Context) (*stream.PacketConn, error) {
		return stream.ListenPacket(ctx, "udp", "127.0.0.1:0")
	}))},
	{name: "stream.DialPacket", ends: true, prepare: ready(opened(func(ctx context.Context) (*stream.PacketConn, error) {
		return stream.DialPacket(ctx, "udp", "127.0.0.1:9")
	}))},
	{name: "stream.LookupNetIP", ends: true, prepare: ready(func(ctx context.Context) error {
		_, err := stream.LookupNetIP(ctx, "ip", "localhost")
		return err
	})},
	{name: "stream.Pipe", ends: true, prepare: ready(func(ctx context.Context) error {
		r, w, err := stream.Pipe(ctx)
		if err == nil {
			r.Close()
			w.Close()
		}
		return err
	})},
	{name: "stream.Wrap", ends: true, prepare: ready(func(ctx context.Context) error {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer w.Close()
		defer r.Close()
		return opened(func(ctx context.Context) (*stream.Conn, error) { return stream.Wrap(ctx, r) })(ctx)
	})},
	{name: "stream.Dial stream.Dialer.Dial stream.Dialer.DialContext", ends: true, prepare: listening(func(ctx context.Context, ln *stream.Listener) error {
		return opened(func(ctx context.Context) (net.Conn, error) {
			return stream.Dialer{}.DialContext(ctx, "tcp", ln.Addr().String())
		})(ctx)
	})},
	{name: "stream.TLS.Dial", prepare: listening(func(ctx context.Context, ln *stream.Listener) error {
		return opened(func(ctx context.Context) (net.Conn, error) {
			return asClient.Dial(ctx, "tcp", ln.Addr().String())
		})(ctx)
	})},
	{name: "stream.Serve stream.ServeConfig.Serve", prepare: listening(func(ctx context.Context, ln *stream.Listener) error {
		return stream.Serve(ctx, ln, func(context.Context, *stream.Conn) error { return nil })
	})},
	{name: "stream.Listener.Accept", prepare: listening(func(ctx context.Context, ln *stream.Listener) error {
		_, err := ln.Accept()
		return err
	})},
	{name: "stream.Conn.Read", prepare: connected(func(_ context.Context, c *stream.Conn) error {
		_, err := c.Read(make([]byte, 1))
		return err
	})},
	{name: "stream.Conn.ReadBorrow", prepare: connected(func(_ context.Context, c *stream.Conn) error {
		_, err := c.ReadBorrow()
		return err
	})},
	{name: "stream.Conn.WriteTo", prepare: connected(func(_ context.Context, c *stream.Conn) error {
		_, err := c.WriteTo(io.Discard)
		return err
	})},
	{name: "stream.Conn.Write", prepare: connected(func(_ context.Context, c *stream.Conn) error { return writeHuge(c) })},
	{name: "stream.Conn.Writev", prepare: connected(func(_ context.Context, c *stream.Conn) error {
		_, err := c.Writev([][]byte{huge, huge})
		return err
	})},
	{name: "stream.Reader.ReadLine", prepare: connected(func(_ context.Context, c *stream.Conn) error {
		_, err := stream.NewReader(c, 100).ReadLine()
		return err
	})},
	{name: "stream.PacketConn.ReadFrom", prepare: packets(func(c *stream.PacketConn) error {
		_, _, err := c.ReadFrom(make([]byte, 1))
		return err
	})},
	{name: "stream.PacketConn.ReadFromAddrPort", prepare: packets(func(c *stream.PacketConn) error {
		_, _, err := c.ReadFromAddrPort(make([]byte, 1))
		return err
	})},
	{name: "stream.TLSConn.HandshakeContext", prepare: connected(func(ctx context.Context, c *stream.Conn) error {
		return asClient.Client(c).HandshakeContext(ctx)
	})},
	{name: "stream.StartTLS", prepare: connected(func(ctx context.Context, c *stream.Conn) error {
		return stream.StartTLS(ctx, asClient.Client(c), nil)
	})},
	{name: "stream.TLSConn.Read", prepare: secured(func(c *stream.TLSConn) error {
		_, err := c.Read(make([]byte, 1))
		return err
	})},
	{name: "stream.TLSConn.Write", prepare: secured(func(c *stream.TLSConn) error { return writeHuge(c) })},
}
