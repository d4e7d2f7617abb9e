package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// pool has the connections of a Transport in one run. Loop goroutine only.
type pool struct {
	c         *Transport
	l         *loop.Loop
	nursery   *spindle.Nursery
	number    uint64                     // in the order of making
	idle      map[endpoint][]*clientConn // the last was used last
	idleCount int                        // of all versions
	h2        h2Pool
}

// pool returns the pool of a run. The map has it until the run ends.
func (c *Transport) pool(nursery *spindle.Nursery) *pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[nursery]
	if p == nil {
		c.made++
		p = &pool{c: c, l: spindle.LoopOf(nursery.Scope()), nursery: nursery, number: c.made, idle: make(map[endpoint][]*clientConn)}
		if c.pools == nil {
			c.pools = make(map[*spindle.Nursery]*pool)
		}
		c.pools[nursery] = p
		p.l.Internal().Kernel().AfterFunc(nursery.Scope(), func() { c.forget(nursery) })
	}
	return p
}

// forget removes the pool of a run that ends, from any goroutine. The run may have left bodies
// of responses open, so the number of connections does not tell.
func (c *Transport) forget(nursery *spindle.Nursery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pools, nursery)
}

// wireConn is a connection with or without TLS.
type wireConn interface {
	net.Conn
	CloseWrite() error
	ReadBorrow() ([]byte, error)
}

// clientConn is a connection of HTTP/1.1 to a server. One request at a time uses it, on any
// goroutine. Between requests the pool owns it.
type clientConn struct {
	p      *pool
	to     endpoint
	conn   wireConn
	tls    *tls.ConnectionState
	parser *http1.ResponseParser
	buf    *readBuffer // the last read; nil while the connection is idle
	rest   []byte      // the part of buf that was not parsed
	used   bool        // by an earlier request
	closed atomic.Bool

	// Loop goroutine only, while the connection is idle.
	watchScope *spindle.Scope        // the scope of the task that watches it
	watchEnded *spindle.Future[bool] // true if nothing was received
}

// acquire returns an idle connection of HTTP/1.1, one of HTTP/2 that accepts a request, or
// makes one. Dial's context has the values of values, the request's context. The caller begins
// a request on a connection of HTTP/2 before it waits for anything.
func (p *pool) acquire(ctx context.Context, to endpoint, values context.Context) (*clientConn, *h2Client, error) {
	if p.c.may2(to) {
		return p.acquireShared(ctx, to, values)
	}
	cc, err := p.takeIdle(ctx, to)
	if cc != nil || err != nil {
		return cc, nil, err
	}
	return p.dial(ctx, to, values)
}

// takeIdle returns an idle connection of HTTP/1.1, nil if there is none.
func (p *pool) takeIdle(ctx context.Context, to endpoint) (*clientConn, error) {
	for idle := p.idle[to]; len(idle) > 0; idle = p.idle[to] {
		cc := idle[len(idle)-1]
		p.remove(cc)
		cc.watchScope.Cancel(nil)
		quiet, err := cc.watchEnded.Await(ctx)
		if err != nil {
			cc.close()
			return nil, err
		}
		if quiet {
			return cc, nil
		}
		cc.close()
	}
	return nil, nil
}

// dial makes a connection, of the version that the server chooses.
func (p *pool) dial(ctx context.Context, to endpoint, values context.Context) (cc *clientConn, hc *h2Client, err error) {
	var conn wireConn
	var state *tls.ConnectionState
	connect := func(ctx context.Context) (err error) {
		conn, state, err = p.c.connect(ctx, to, values)
		return err
	}
	late := false
	if timeout := orDefault(p.c.DialTimeout, 30*time.Second); timeout > 0 {
		late, err = spindle.MoveOnAfter(ctx, timeout, connect)
	} else {
		err = connect(ctx)
	}
	if late {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	switch {
	case err != nil:
		return nil, nil, err
	case state == nil && p.c.may2(to), state != nil && state.NegotiatedProtocol == "h2":
		return nil, p.newH2Client(to, conn, state), nil
	}
	if p := p.c.protocols(); !p.HTTP1() {
		conn.Close()
		return nil, nil, fmt.Errorf("web: the server at %s does not speak HTTP/2", to.address)
	}
	cc = &clientConn{p: p, to: to, conn: conn, tls: state}
	cc.parser = http1.NewResponseParser(http1.Limits{HeaderBytes: p.c.MaxHeaderBytes})
	return cc, nil, nil
}

// valued is a task's context with the values of another context.
type valued struct {
	context.Context
	values context.Context
}

// Value looks key up in values first, except for what makes the context one of a task: its
// scope, and the standard context, for which the context package has an *int.
func (v valued) Value(key any) any {
	if _, standard := key.(*int); !standard {
		value := v.values.Value(key)
		if _, scope := value.(*spindle.Scope); value != nil && !scope {
			return value
		}
	}
	return v.Context.Value(key)
}

// connect makes a connection, with TLS if the endpoint is secure.
func (c *Transport) connect(ctx context.Context, to endpoint, values context.Context) (wireConn, *tls.ConnectionState, error) {
	dial := c.Dial
	if dial == nil {
		dial = stream.Dial
	}
	conn, err := dial(valued{ctx, values}, "tcp", to.address)
	if err != nil {
		return nil, nil, err
	}
	if !to.secure {
		return conn, nil, nil
	}
	config := &tls.Config{}
	if c.TLS != nil {
		config = c.TLS.Clone() // shares the session cache
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(to.address)
	}
	protocols := c.protocols()
	protocols.SetHTTP2(c.may2(to))
	config.NextProtos = nextProtos(protocols)
	secured := stream.TLS{Config: config, HandshakeTimeout: -1}.Client(conn)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && string(plain.RecordHeader[:]) == "HTTP/" {
			return nil, nil, fmt.Errorf("web: %w", http.ErrSchemeMismatch)
		}
		return nil, nil, err
	}
	state := secured.ConnectionState()
	return secured, &state, nil
}

// close closes the connection. It may be called from any goroutine, and repeatedly.
func (cc *clientConn) close() {
	if !cc.closed.Swap(true) {
		cc.conn.Close()
	}
}

// ends reports whether the run ends, so that nothing is kept for later.
func (p *pool) ends() bool { return p.nursery.Ended() || p.nursery.Scope().Err() != nil }

// release returns the connection to the pool. It may be called from any goroutine.
func (cc *clientConn) release() {
	if cc.p.l.Owns() {
		cc.p.put(cc)
		return
	}
	if cc.p.l.Internal().Post(atclose.Drop, func() { cc.p.put(cc) }) != nil {
		cc.close()
	}
}

// put keeps an idle connection, or closes it if there are enough.
func (p *pool) put(cc *clientConn) {
	host := orDefault(p.c.MaxIdlePerHost, 8)
	most := orDefault(p.c.MaxIdle, 100)
	if cc.closed.Load() || p.ends() || len(p.idle[cc.to]) >= host || p.idleCount >= most {
		cc.close()
		return
	}
	if cc.buf != nil {
		readBuffers.Put(cc.buf)
	}
	cc.used, cc.buf, cc.rest = true, nil, nil
	cc.parser.Reset()
	p.idle[cc.to] = append(p.idle[cc.to], cc)
	p.idleCount++
	cc.watchEnded = spindle.NewFuture[bool](p.nursery.Scope())
	p.nursery.GoWith(spindle.TaskOptions{Name: "idle connection to " + cc.to.address, Eager: true, Values: coro.Helper{Context: context.Background()}}, cc.watch)
}

// watch reads from an idle connection, and closes it if the server closes it or sends
// anything, or after the idle time-out. A request that takes the connection cancels watch.
func (cc *clientConn) watch(ctx context.Context) error {
	cc.watchScope = ctx.(*spindle.Scope)
	look := func(ctx context.Context) error {
		_, err := cc.conn.Read(make([]byte, 1))
		return err
	}
	var err error
	late := false
	if timeout := orDefault(cc.p.c.IdleTimeout, 90*time.Second); timeout > 0 {
		late, err = spindle.MoveOnAfter(ctx, timeout, look)
	} else {
		err = look(ctx)
	}
	var canceled *spindle.Canceled
	taken := errors.As(err, &canceled) && canceled.Scope == cc.watchScope && !late
	if !taken {
		cc.p.remove(cc)
		cc.close()
	}
	cc.watchEnded.Resolve(taken)
	return nil
}

// remove removes a connection from the idle ones, if it is there.
func (p *pool) remove(cc *clientConn) {
	idle := p.idle[cc.to]
	for i, other := range idle {
		if other == cc {
			p.idle[cc.to] = append(idle[:i], idle[i+1:]...)
			if p.idleCount--; len(idle) == 1 {
				delete(p.idle, cc.to)
			}
			return
		}
	}
}

func (p *pool) closeIdle() {
	for _, to := range slices.SortedFunc(maps.Keys(p.idle), endpoint.compare) {
		for _, cc := range p.idle[to] {
			cc.close() // its watch ends, and removes it
		}
	}
	p.closeIdleShared()
}
