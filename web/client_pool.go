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
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/loopcore"
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
	idleCount int
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
}

// clientConn is a connection to a server. One request at a time uses it, on any
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

// acquire returns an idle connection, or makes one. Dial's context has the values of
// values, the request's context.
func (p *pool) acquire(ctx context.Context, to endpoint, values context.Context) (*clientConn, error) {
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
	cc := &clientConn{p: p, to: to}
	if err := cc.dial(ctx, values); err != nil {
		return nil, err
	}
	cc.parser = http1.NewResponseParser(http1.Limits{HeaderBytes: p.c.MaxHeaderBytes})
	return cc, nil
}

func (cc *clientConn) dial(ctx, values context.Context) error {
	timeout := orDefault(cc.p.c.DialTimeout, 30*time.Second)
	if timeout == 0 {
		return cc.connect(ctx, values)
	}
	late, err := spindle.MoveOnAfter(ctx, timeout, func(ctx context.Context) error { return cc.connect(ctx, values) })
	if late {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	return err
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

func (cc *clientConn) connect(ctx, values context.Context) error {
	c := cc.p.c
	dial := c.Dial
	if dial == nil {
		dial = stream.Dial
	}
	conn, err := dial(valued{ctx, values}, "tcp", cc.to.address)
	if err != nil {
		return err
	}
	if !cc.to.secure {
		cc.conn = conn
		return nil
	}
	config := &tls.Config{}
	if c.TLS != nil {
		config = c.TLS.Clone() // shares the session cache
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(cc.to.address)
	}
	config.NextProtos = []string{"http/1.1"}
	secured := stream.TLS{Config: config, HandshakeTimeout: -1}.Client(conn)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && string(plain.RecordHeader[:]) == "HTTP/" {
			return fmt.Errorf("web: %w", http.ErrSchemeMismatch)
		}
		return err
	}
	state := secured.ConnectionState()
	cc.conn, cc.tls = secured, &state
	return nil
}

// close closes the connection. It may be called from any goroutine, and repeatedly.
func (cc *clientConn) close() {
	if !cc.closed.Swap(true) {
		cc.conn.Close()
	}
}

// release returns the connection to the pool. It may be called from any goroutine.
func (cc *clientConn) release() {
	if cc.p.l.Owns() {
		cc.p.put(cc)
		return
	}
	if cc.p.l.Internal().Post(loopcore.DropAtClose, func() { cc.p.put(cc) }) != nil {
		cc.close()
	}
}

// put keeps an idle connection, or closes it if there are enough.
func (p *pool) put(cc *clientConn) {
	host := orDefault(p.c.MaxIdlePerHost, 8)
	most := orDefault(p.c.MaxIdle, 100)
	if cc.closed.Load() || p.nursery.Ended() || p.nursery.Scope().Err() != nil || len(p.idle[cc.to]) >= host || p.idleCount >= most {
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
}
