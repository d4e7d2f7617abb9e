package transport

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// ConnectOptions configure Connect.
type ConnectOptions struct {
	// Protocol receives the events of the connection. It is required.
	Protocol Protocol

	// OnError is called with a *net.OpError if no connection could be made. It is
	// required.
	OnError func(error)

	// Timeout limits the whole attempt: the look-up, every address, and the TLS
	// handshake. Zero means no limit besides the system's own.
	Timeout time.Duration

	// Local is the address of this end; "" means any.
	Local string

	// Delay lets the system collect small writes (Nagle's algorithm). By default
	// they are sent at once.
	Delay bool

	// TLS secures the connection. Nil means a plain connection. An empty
	// ServerName is set to the host of the address. Callbacks of the
	// configuration run on workers of the loop and may block. Connect fails if
	// the configuration allows renegotiation, which is not supported.
	TLS *tls.Config

	// HandshakeTimeout limits the TLS handshake. Zero means 10 seconds, negative
	// means no limit.
	HandshakeTimeout time.Duration
}

// Connect makes a connection to an address of network "tcp", "tcp4", "tcp6" or "unix".
// It returns at once, and later calls either ConnectionMade of the protocol or OnError.
// A name is looked up on a worker. All its addresses are tried, alternating between
// IPv6 and IPv4; the next one starts when an address has failed or has not answered for
// 250 milliseconds. When ctx is done, Connect fails with its cause. It corresponds to
// asyncio's create_connection.
func Connect(ctx context.Context, l *loop.Loop, network, address string, o ConnectOptions) {
	if o.Protocol == nil || o.OnError == nil {
		panic("transport: Connect: nil Protocol or nil OnError in the ConnectOptions")
	}
	co := &connecting{st: loopStateOf("Connect", l), network: network, o: o}
	t, bind, err := co.parse(network, address, o.Local)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = tlsio.CheckRenegotiation(o.TLS)
	}
	if err != nil {
		co.st.sockets.L.Internal().CallSoon(atclose.Run, func() { co.fail(err) })
		return
	}
	if a, ok := t.Known(false); ok {
		co.addr = sock.NetAddr(network, a)
	}
	if o.TLS != nil {
		co.o.TLS = tlsio.ClientConfig(o.TLS, address)
	}
	co.dialing = co.st.sockets.Dial(t, bind, co.dialed)
	if o.Timeout > 0 {
		co.timer = l.CallLater(o.Timeout, func() { co.cancel(os.ErrDeadlineExceeded) })
	}
	co.stopContext = l.Internal().AfterFunc(ctx, func() { co.cancel(context.Cause(ctx)) }) // a closed loop has already failed the dial
}

// connecting is a Connect in progress. Loop goroutine only.
type connecting struct {
	st          *loopState
	network     string
	o           ConnectOptions
	addr        net.Addr // nil if a name has to be looked up
	dialing     *sock.Dialing
	conn        *Conn // set during the TLS handshake
	timer       loop.Timer
	stopContext func() bool
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

func (co *connecting) dialed(fd int, a kernel.Addr, err error) {
	if err != nil {
		co.stopWaiting()
		co.fail(err)
		return
	}
	if !co.o.Delay && a.Family() != kernel.Unix {
		co.st.sockets.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := co.st.newConn(fd, sock.KindOf(a.Family()), co.o.Protocol, nil)
	switch {
	case err != nil:
		co.stopWaiting()
		co.fail(err)
	case co.o.TLS != nil:
		c.marks |= unannounced
		co.conn = c
		c.startHandshake(asClient, co.o.TLS, co.o.HandshakeTimeout, nil, co.handshakeDone)
	default:
		co.stopWaiting()
		c.announce()
	}
}

// handshakeDone is called when the handshake has ended.
func (co *connecting) handshakeDone(err error) {
	co.stopWaiting()
	c := co.conn
	co.conn = nil
	if err != nil {
		co.fail(err)
		return
	}
	c.marks &^= unannounced
	c.announce()
}

// stopWaiting ends the timeout and the watch of the context.
func (co *connecting) stopWaiting() {
	co.timer.Cancel()
	co.stopContext()
}

// cancel ends the attempt with err, if it is still in progress.
func (co *connecting) cancel(err error) {
	switch {
	case co.dialing.Cancel():
		co.stopWaiting()
		co.fail(err)
	case co.conn != nil:
		co.conn.lose(co.conn.opError("handshake", err))
	}
}

func (co *connecting) fail(err error) {
	co.o.OnError(sock.Error("dial", co.network, nil, co.addr, err))
}
