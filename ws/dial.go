package ws

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/stream"
)

const handshakeTimeout = 10 * time.Second

// Dial connects to a URL with scheme "ws" or "wss". The context comes from a task;
// any other panics. Dial fails with a *url.Error, a *net.OpError, a *HandshakeError
// if the server's response is not a valid upgrade (redirects are not followed), or
// spindle.ErrTimeout after Options.HandshakeTimeout.
func Dial(ctx context.Context, url string, o Options) (*Conn, error) {
	k := spindle.LoopOf(ctx).Internal().Kernel()
	q, err := newRequest(url, &o, k.Uint64)
	if err != nil {
		return nil, err
	}
	var c *Conn
	err = spindle.FailAfter(ctx, cmp.Or(o.HandshakeTimeout, handshakeTimeout), func(ctx context.Context) error {
		nc, err := q.dial(ctx)
		if err != nil {
			return err
		}
		early, err := q.handshake(nc)
		if err != nil {
			nc.Close()
			return err
		}
		c = newConn(nc, o.rules(wsframe.Client, q.negotiated), early)
		c.now, c.rand = k.Wall, k.Uint64
		return nil
	})
	return c, err
}

func (q *request) dial(ctx context.Context) (net.Conn, error) {
	if !q.secure {
		nc, err := stream.Dial(ctx, "tcp", q.address)
		if err != nil {
			return nil, err
		}
		return nc, nil
	}
	nc, err := stream.TLS{Config: q.tls()}.Dial(ctx, "tcp", q.address)
	if err != nil {
		return nil, err
	}
	return nc, nil
}

// tls returns the TLS configuration. It excludes HTTP/2, which upgrades connections
// in another way.
func (q *request) tls() *tls.Config {
	config := q.options.TLS.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = []string{"http/1.1"}
	return config
}

// handshake sends the request and reads the response. It returns the bytes that
// follow the response.
func (q *request) handshake(nc net.Conn) (early []byte, err error) {
	if _, err := nc.Write(q.head); err != nil {
		return nil, err
	}
	buf := make([]byte, minBuffer)
	for {
		n, err := nc.Read(buf)
		if err == io.EOF {
			return nil, errHandshakeEnded
		}
		if err != nil {
			return nil, err
		}
		if early, done, err := q.parse(buf[:n]); done || err != nil {
			return early, err
		}
	}
}
