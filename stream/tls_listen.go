package stream

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"github.com/spindleloop/spindle/internal/tlsio"
)

// Dial connects, as the function Dial does, and performs the handshake. If Config has
// no ServerName, the host of the address is used. A nil Config is an empty one. The
// context comes from a task.
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

// Listener returns a net.Listener that secures the connections of ln, for code that
// takes one. In Serve, call Server in the handler. Accept returns *TLSConns. It does not
// wait for the handshake, which the connection's first use performs.
//
// The connections do not offer "h2", because servers that take any net.Conn would not
// speak it: a net/http server speaks HTTP/2 only on a *tls.Conn. For HTTP/2, pass ln
// to http.Server.ServeTLS.
func (o TLS) Listener(ln *Listener) net.Listener {
	o.Config = withoutHTTP2(o.Config)
	return &tlsListener{ln, o}
}

type tlsListener struct {
	*Listener
	tls TLS
}

func (ln *tlsListener) Accept() (net.Conn, error) {
	c, err := ln.AcceptConn()
	if err != nil {
		return nil, err
	}
	return ln.tls.Server(c), nil
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
