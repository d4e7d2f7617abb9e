package ws

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Connect is Dial for callbacks. It returns at once. Later it calls either h.OnOpen
// with a Socket or Options.OnError with an error, on the loop. If ctx is done before
// that, Connect fails with its cause.
func Connect(ctx context.Context, l *loop.Loop, url string, h Handler, o Options) {
	if h == nil || o.OnError == nil {
		panic("ws: Connect: nil Handler or nil Options.OnError")
	}
	failed := o.OnError
	q, err := newRequest(url, &o, l.Internal().Kernel().Uint64)
	if err != nil {
		l.Internal().CallSoon(atclose.Run, func() { failed(err) })
		return
	}
	timeout := cmp.Or(o.HandshakeTimeout, handshakeTimeout)
	co := &connecting{q: q, h: h, failed: failed, ctx: ctx, deadline: l.Time() + timeout}
	connectOptions := transport.ConnectOptions{Protocol: co, Timeout: timeout, OnError: failed}
	if q.secure {
		connectOptions.TLS = q.tls()
	}
	transport.Connect(ctx, l, "tcp", q.address, connectOptions)
}

// connecting is a client's protocol until the handshake is complete.
type connecting struct {
	q               *request
	h               Handler
	failed          func(error)
	ctx             context.Context
	deadline        time.Duration // on the loop's clock
	timer           loop.Timer
	unfollowContext func() bool
	err             error
}

// ConnectionMade sends the request.
func (co *connecting) ConnectionMade(c *transport.Conn) {
	l := c.Loop()
	co.timer = l.CallLater(co.deadline-l.Time(), func() {
		co.fail(c, fmt.Errorf("ws: handshake: %w", os.ErrDeadlineExceeded))
	})
	co.unfollowContext = l.Internal().AfterFunc(co.ctx, func() { co.fail(c, context.Cause(co.ctx)) })
	c.Write(co.q.head)
}

// DataReceived reads the response and, once it is complete, hands the connection
// over to the Socket.
func (co *connecting) DataReceived(c *transport.Conn, data []byte) {
	early, done, err := co.q.parse(data)
	if err != nil {
		co.fail(c, err)
		return
	}
	if !done {
		return
	}
	co.timer.Cancel()
	co.unfollowContext()
	s := newSocket(co.h, co.q.options.rules(wsframe.Client, co.q.negotiated))
	p := (*protocol)(s)
	c.SetProtocol(p)
	p.ConnectionMade(c)
	if len(early) > 0 && !c.IsClosing() {
		p.DataReceived(c, early)
	}
}

// fail aborts an incomplete handshake.
func (co *connecting) fail(c *transport.Conn, why error) {
	if c.Protocol() == transport.Protocol(co) && co.err == nil {
		co.err = why
		c.Abort()
	}
}

// ConnectionLost reports the failure.
func (co *connecting) ConnectionLost(c *transport.Conn, err error) {
	co.timer.Cancel()
	co.unfollowContext()
	co.failed(cmp.Or(co.err, err, errHandshakeEnded))
}
