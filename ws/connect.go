package ws

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Connect is Dial in the form of callbacks: it returns at once, and then h is told
// of a Socket, or failed of an error; both on the loop. When ctx ends before that,
// it gives up.
func Connect(ctx context.Context, l *loop.Loop, url string, h Handler, o Options, failed func(error)) {
	if h == nil || failed == nil {
		panic("ws: Connect without a Handler or a function to hear of failure")
	}
	q, err := newRequest(url, &o, l.Kernel().Uint64)
	if err != nil {
		l.CallSoonWith(loop.RunAtClose, func() { failed(err) })
		return
	}
	timeout := cmp.Or(o.HandshakeTimeout, handshakeTimeout)
	co := &connecting{q: q, h: h, failed: failed, ctx: ctx, until: l.Time() + timeout}
	how := transport.ConnectOptions{Timeout: timeout}
	if q.secure {
		how.TLS = q.tls()
	}
	transport.Connect(ctx, l, "tcp", q.address, co, how, failed)
}

// connecting is the protocol of a client until the handshake is done.
type connecting struct {
	q        *request
	h        Handler
	failed   func(error)
	ctx      context.Context
	until    time.Duration // on the loop's clock
	timer    loop.Timer
	unfollow func() bool
	err      error
}

// ConnectionMade sends the request.
func (co *connecting) ConnectionMade(c *transport.Conn) {
	l := c.Loop()
	co.timer = l.CallLater(co.until-l.Time(), func() {
		co.giveUp(c, fmt.Errorf("ws: handshake: %w", os.ErrDeadlineExceeded))
	})
	co.unfollow = l.Kernel().AfterFunc(co.ctx, func() {
		l.PostWith(loop.DropAtClose, func() { co.giveUp(c, context.Cause(co.ctx)) })
	})
	c.Write(co.q.head)
}

// DataReceived reads the answer, and hands over to the Socket.
func (co *connecting) DataReceived(c *transport.Conn, data []byte) {
	early, done, err := co.q.read(data)
	if err != nil {
		co.giveUp(c, err)
		return
	}
	if !done {
		return
	}
	co.timer.Cancel()
	co.unfollow()
	s := newSocket(co.h, co.q.o.rules(wsframe.Client, co.q.agreed))
	p := (*protocol)(s)
	c.SetProtocol(p)
	p.ConnectionMade(c)
	if len(early) > 0 && !c.IsClosing() {
		p.DataReceived(c, early)
	}
}

// giveUp ends a handshake that is not done.
func (co *connecting) giveUp(c *transport.Conn, why error) {
	if c.Protocol() == transport.Protocol(co) && co.err == nil {
		co.err = why
		c.Abort()
	}
}

// ConnectionLost tells of the failure.
func (co *connecting) ConnectionLost(c *transport.Conn, err error) {
	co.timer.Cancel()
	co.unfollow()
	co.failed(cmp.Or(co.err, err, errHandshakeEnded))
}
