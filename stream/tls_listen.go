package stream

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// DialTLS connects, as Dial does, and shakes hands. A config without a ServerName
// gets that of the address; nil is an empty one. Ctx comes from a task.
func DialTLS(ctx context.Context, network, address string, config *tls.Config) (*TLSConn, error) {
	return TLS{Config: config}.Dial(ctx, network, address)
}

// Dial is DialTLS as configured.
func (o TLS) Dial(ctx context.Context, network, address string) (*TLSConn, error) {
	c, err := o.Dialer.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.Config = tlsio.ClientConfig(o.Config, address)
	t := o.Client(c)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

// DialContext is Dial in the form that http.Transport takes as its DialTLSContext.
// It may be called from any goroutine; ctx, or Dialer.Context, comes from a task.
func (o TLS) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	t, err := o.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// TLSHandler makes a handler for Serve of one for secured connections. The
// handshake is made in the handler's task: one that fails, or takes too long, is
// that connection's error, and delays nobody. The connection is closed when the
// handler returns.
//
//	stream.Serve(ctx, ln, stream.TLSHandler(config, func(ctx context.Context, c *stream.TLSConn) error {
//		_, err := io.Copy(c, c)
//		return err
//	}))
func TLSHandler(config *tls.Config, handler func(ctx context.Context, c *TLSConn) error) func(ctx context.Context, c *Conn) error {
	return TLS{Config: config}.Handler(handler)
}

// Handler is TLSHandler as configured.
func (o TLS) Handler(handler func(ctx context.Context, c *TLSConn) error) func(ctx context.Context, c *Conn) error {
	return func(ctx context.Context, c *Conn) error {
		t, err := o.accept(ctx, c)
		if err != nil {
			return err
		}
		defer t.Close()
		return handler(ctx, t)
	}
}

// accept secures c and shakes hands.
func (o *TLS) accept(ctx context.Context, c *Conn) (*TLSConn, error) {
	t := o.Server(c)
	if err := t.shake(ctx); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// TLSListener accepts connections and secures them, for what takes a net.Listener.
// To Serve them, use a Listener and TLSHandler.
//
// A server of net/http speaks HTTP/2 only on a *tls.Conn. For HTTP/2, give a Listener
// to http.Server.ServeTLS; on a TLSListener it speaks HTTP/1.1.
type TLSListener struct {
	ln    *Listener
	o     TLS // as given, for AcceptTLS
	plain TLS // without HTTP/2, for Accept
}

var _ net.Listener = (*TLSListener)(nil)

// ListenTLS is Listen for secured connections. Config must have a certificate.
func ListenTLS(ctx context.Context, network, address string, config *tls.Config) (*TLSListener, error) {
	ln, err := Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return TLS{Config: config}.Listener(ln), nil
}

// Listener secures the connections that ln accepts.
func (o TLS) Listener(ln *Listener) *TLSListener {
	plain := o
	plain.Config = withoutHTTP2(o.Config)
	return &TLSListener{ln, o, plain}
}

// http2 is the name of HTTP/2 in tls.Config.NextProtos.
const http2 = "h2"

// withoutHTTP2 returns a config that does not offer HTTP/2: config itself if it never
// does.
func withoutHTTP2(config *tls.Config) *tls.Config {
	if config == nil || config.GetConfigForClient == nil && !slices.Contains(config.NextProtos, http2) {
		return config
	}
	plain := config.Clone()
	plain.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(p string) bool { return p == http2 })
	if choose := config.GetConfigForClient; choose != nil {
		plain.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			return withoutHTTP2(chosen), err
		}
	}
	return plain
}

// Accept waits for a connection, a *TLSConn. It does not wait for the handshake:
// that is made by the connection's first use. The connection does not offer "h2",
// because servers that take any net.Conn from a net.Listener, as net/http's does,
// would not speak it.
func (ln *TLSListener) Accept() (net.Conn, error) {
	c, err := ln.ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return ln.plain.Server(c), nil
}

// AcceptTLS is Accept for code that knows this package: the connection offers the
// protocols of the configuration, "h2" included.
func (ln *TLSListener) AcceptTLS() (*TLSConn, error) {
	c, err := ln.ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return ln.o.Server(c), nil
}

// Addr is the address the listener is bound to.
func (ln *TLSListener) Addr() net.Addr { return ln.ln.Addr() }

// Close stops to accept, as Listener's does.
func (ln *TLSListener) Close() error { return ln.ln.Close() }

// Loop is the loop that the listener is on.
func (ln *TLSListener) Loop() *loop.Loop { return ln.ln.Loop() }
