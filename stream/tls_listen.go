package stream

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// DialTLS connects, as Dial does, and shakes hands. A config without a ServerName
// gets that of the address; nil is an empty one. Ctx is a task's.
func DialTLS(ctx context.Context, network, address string, config *tls.Config) (*TLSConn, error) {
	return TLS{Config: config}.Dial(ctx, network, address)
}

// Dial is DialTLS as configured.
func (o TLS) Dial(ctx context.Context, network, address string) (*TLSConn, error) {
	c, err := o.Dialer.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.Config = tlsio.ForServer(o.Config, address)
	t := o.Client(c)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

// DialContext is Dial in the form that http.Transport takes as its DialTLSContext.
// A goroutine that is no task may call it with a ctx that comes from one.
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
type TLSListener struct {
	ln *Listener
	o  TLS
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

// Listener secures what ln accepts.
func (o TLS) Listener(ln *Listener) *TLSListener { return &TLSListener{ln, o} }

// Accept waits for a connection, a *TLSConn. It does not wait for the handshake:
// that is made by the connection's first use.
func (ln *TLSListener) Accept() (net.Conn, error) {
	t, err := ln.AcceptTLS()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// AcceptTLS is Accept without the interface around.
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
