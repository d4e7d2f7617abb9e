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

// Dial connects to a URL with scheme "ws" or "wss". Ctx is a task's; any other panics.
// It fails with a *URLError, a *net.OpError, a *HandshakeError if the server answers
// otherwise than it should (redirections are not followed), or spindle.ErrTimeout
// after Options.HandshakeTimeout.
func Dial(ctx context.Context, url string, o Options) (*Conn, error) {
	k := spindle.LoopOf(ctx).Kernel()
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
		early, err := q.shakeHands(nc)
		if err != nil {
			nc.Close()
			return err
		}
		c = newConn(nc, o.rules(wsframe.Client, q.agreed), early)
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
	nc, err := stream.DialTLS(ctx, "tcp", q.address, q.tls())
	if err != nil {
		return nil, err
	}
	return nc, nil
}

// tls is how to secure the connection: there is no WebSocket like this in HTTP/2.
func (q *request) tls() *tls.Config {
	config := q.o.TLS.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = []string{"http/1.1"}
	return config
}

// shakeHands sends the request and reads the answer, and perhaps some more.
func (q *request) shakeHands(nc net.Conn) (early []byte, err error) {
	if _, err := nc.Write(q.head); err != nil {
		return nil, err
	}
	buf := make([]byte, firstBuffer)
	for {
		n, err := nc.Read(buf)
		if err == io.EOF {
			return nil, errHandshakeEnded
		}
		if err != nil {
			return nil, err
		}
		if early, done, err := q.read(buf[:n]); done || err != nil {
			return early, err
		}
	}
}
