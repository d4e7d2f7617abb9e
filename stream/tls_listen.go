package stream

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// DialTLS connects, as Dial does, and performs the handshake. If config has no
// ServerName, the host of the address is used. A nil config is an empty one. The
// context comes from a task.
func DialTLS(ctx context.Context, network, address string, config *tls.Config) (*TLSConn, error) {
	return TLS{Config: config}.Dial(ctx, network, address)
}

// Dial is DialTLS, configured by o.
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

// DialContext is Dial with the signature of http.Transport.DialTLSContext. Any
// goroutine may call it, as long as ctx or Dialer.Context comes from a task.
func (o TLS) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	t, err := o.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// TLSHandler returns a handler for Serve that performs the handshake and calls
// handler with the secured connection. The handshake runs in the connection's task,
// so a slow or failed one affects only that connection. The connection is closed
// when handler returns.
//
//	stream.Serve(ctx, ln, stream.TLSHandler(config, func(ctx context.Context, c *stream.TLSConn) error {
//		_, err := io.Copy(c, c)
//		return err
//	}))
func TLSHandler(config *tls.Config, handler func(ctx context.Context, c *TLSConn) error) func(ctx context.Context, c *Conn) error {
	return TLS{Config: config}.Handler(handler)
}

// Handler is TLSHandler, configured by o.
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

// accept secures c and performs the handshake.
func (o *TLS) accept(ctx context.Context, c *Conn) (*TLSConn, error) {
	t := o.Server(c)
	if err := t.doHandshake(ctx); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// TLSListener accepts secured connections, for code that takes a net.Listener. To
// Serve them, use a Listener and TLSHandler.
//
// A net/http server speaks HTTP/2 only on a *tls.Conn. For HTTP/2, pass a Listener
// to http.Server.ServeTLS; on a TLSListener it speaks HTTP/1.1.
type TLSListener struct {
	ln      *Listener
	config  TLS // as given, for AcceptTLS
	noHTTP2 TLS // without HTTP/2, for Accept
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

// Listener returns a TLSListener that secures the connections of ln.
func (o TLS) Listener(ln *Listener) *TLSListener {
	plain := o
	plain.Config = withoutHTTP2(o.Config)
	return &TLSListener{ln, o, plain}
}

// http2 is the protocol name of HTTP/2 in tls.Config.NextProtos.
const http2 = "h2"

// withoutHTTP2 returns a config that does not offer HTTP/2, or config itself if it
// never does.
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

// Accept waits for a connection and returns it as a *TLSConn. It does not wait for
// the handshake, which the connection's first use performs. The connection does not
// offer "h2", because servers that take any net.Conn from a net.Listener, such as
// net/http's, would not speak it.
func (ln *TLSListener) Accept() (net.Conn, error) {
	c, err := ln.ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return ln.noHTTP2.Server(c), nil
}

// AcceptTLS is Accept with a concrete result type. The connection offers all
// protocols of the configuration, including "h2".
func (ln *TLSListener) AcceptTLS() (*TLSConn, error) {
	c, err := ln.ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return ln.config.Server(c), nil
}

// Addr returns the address the listener is bound to.
func (ln *TLSListener) Addr() net.Addr { return ln.ln.Addr() }

// Close closes the underlying Listener.
func (ln *TLSListener) Close() error { return ln.ln.Close() }

// Loop returns the listener's loop.
func (ln *TLSListener) Loop() *loop.Loop { return ln.ln.Loop() }
