package transport

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// ConnectOptions configure Connect.
type ConnectOptions struct {
	// Timeout is how long all of it may take: look-up, every address, and the
	// handshake of TLS. Zero means as long as the system tries.
	Timeout time.Duration

	// Local is the address of this end, "" for any.
	Local string

	// Delay has the system collect small writes (Nagle's algorithm).
	Delay bool

	// TLS has the connection be secured; nil means that it is not. A
	// configuration without a ServerName gets that of the address. What it has
	// called is called on workers of the loop, and may block. Renegotiation is
	// not supported: one that allows it fails.
	TLS *tls.Config

	// HandshakeTimeout is how long the handshake of TLS may take. Zero means
	// 10 seconds, less means for ever.
	HandshakeTimeout time.Duration
}

// Connect makes a connection to an address of network "tcp", "tcp4", "tcp6" or
// "unix", and calls ConnectionMade of p; or failed, with a *net.OpError, if it
// cannot. It returns at once. A name is looked up off the loop; all its addresses
// are tried, IPv6 and IPv4 in turns, the next when one has failed or not answered
// for a quarter of a second. When ctx ends, it gives up and fails with the cause.
// It is asyncio's create_connection.
func Connect(ctx context.Context, l *loop.Loop, network, address string, p Protocol, o ConnectOptions, failed func(error)) {
	if p == nil || failed == nil {
		panic("transport: Connect without a Protocol or a function to hear of failure")
	}
	co := &connecting{st: stationOf(l), network: network, p: p, o: o, failed: failed}
	t, bind, err := co.parse(network, address, o.Local)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = tlsio.CheckRenegotiation(o.TLS)
	}
	if err != nil {
		co.st.hub.L.CallSoonWith(loop.RunAtClose, func() { co.fail(err) })
		return
	}
	if a, ok := t.Known(false); ok {
		co.addr = sock.NetAddr(network, a)
	}
	if o.TLS != nil {
		co.o.TLS = tlsio.ClientConfig(o.TLS, address)
	}
	co.dialing = co.st.hub.Dial(t, bind, co.done)
	if o.Timeout > 0 {
		co.timer = l.CallLater(o.Timeout, func() { co.giveUp(os.ErrDeadlineExceeded) })
	}
	co.unfollow = l.Kernel().AfterFunc(ctx, func() {
		l.PostWith(loop.DropAtClose, func() { co.giveUp(context.Cause(ctx)) }) // a loop that is closed has given up
	})
}

// connecting is a Connect under way.
type connecting struct {
	st       *station
	network  string
	p        Protocol
	o        ConnectOptions
	addr     net.Addr // nil if a name has to be looked up
	failed   func(error)
	dialing  *sock.Dialing
	conn     *Conn // while it shakes hands
	timer    loop.Timer
	unfollow func() bool
}

func (co *connecting) parse(network, address, local string) (t sock.Target, bind kernel.Addr, err error) {
	if t, err = sock.ParseTarget(network, address); err != nil {
		return t, bind, err
	}
	if t.Type != kernel.Stream {
		return t, bind, net.UnknownNetworkError(network)
	}
	if local != "" {
		from, err := sock.ParseTarget(network, local)
		if err != nil {
			return t, bind, err
		}
		var ok bool
		if bind, ok = from.Known(true); !ok {
			return t, bind, &net.AddrError{Err: "not an address (a name must be looked up first)", Addr: local}
		}
	}
	return t, bind, nil
}

func (co *connecting) done(fd int, a kernel.Addr, err error) {
	if err != nil {
		co.settle()
		co.fail(err)
		return
	}
	if !co.o.Delay && a.Family() != kernel.Unix {
		co.st.hub.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := co.st.newConn(fd, sock.KindOf(a.Family()), co.p, nil)
	switch {
	case err != nil:
		co.settle()
		co.fail(err)
	case co.o.TLS != nil:
		c.state |= unmade
		co.conn = c
		c.shakeHands(asClient, co.o.TLS, co.o.HandshakeTimeout, nil, co.shaken)
	default:
		co.settle()
		c.made()
	}
}

// shaken is the end of the handshake.
func (co *connecting) shaken(err error) {
	co.settle()
	c := co.conn
	co.conn = nil
	if err != nil {
		co.fail(err)
		return
	}
	c.state &^= unmade
	c.made()
}

// settle is the end of the time in which it can be given up.
func (co *connecting) settle() {
	co.timer.Cancel()
	co.unfollow()
}

func (co *connecting) giveUp(why error) {
	switch {
	case co.dialing.Cancel():
		co.settle()
		co.fail(why)
	case co.conn != nil:
		co.conn.lose(co.conn.fault("handshake", why))
	}
}

func (co *connecting) fail(err error) {
	co.failed(sock.Error("dial", co.network, nil, co.addr, err))
}
