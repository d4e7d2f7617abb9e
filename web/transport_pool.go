package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// pool is a client's connections in one run. It is for the run's loop only.
type pool struct {
	c    *Transport
	l    *loop.Loop
	home *spindle.Nursery
	open int                     // connections, also those that are being made
	idle map[place][]*clientConn // the last was used last
	all  int                     // of these
}

// pool is that of a run. It is in the map while it has connections, so that it goes
// with the run.
func (c *Transport) pool(home *spindle.Nursery) *pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[home]
	if p == nil {
		p = &pool{c: c, l: spindle.LoopOf(home.Scope()), home: home, idle: make(map[place][]*clientConn)}
		if c.pools == nil {
			c.pools = make(map[*spindle.Nursery]*pool)
		}
		c.pools[home] = p
	}
	return p
}

// count is called when a connection is made, or has ended.
func (p *pool) count(n int) {
	if p.open += n; p.open > 0 && n < 0 {
		return
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.open > 0 {
		p.c.pools[p.home] = p // it may have been taken out meanwhile
	} else {
		delete(p.c.pools, p.home)
	}
}

// wireConn is a connection, secured or not.
type wireConn interface {
	net.Conn
	CloseWrite() error
}

// clientConn is a connection to a server. One request at a time uses it, on whatever
// goroutine; in between it is the pool's.
type clientConn struct {
	p      *pool
	where  place
	conn   wireConn
	tls    *tls.ConnectionState
	parser *http1.ResponseParser
	buf    *readBuffer // what was read; nil while it is idle
	rest   []byte      // of that, what was not parsed
	used   bool        // by an earlier request
	closed atomic.Bool

	// Loop goroutine only, while it is idle.
	scope *spindle.Scope        // of the task that watches it
	quiet *spindle.Future[bool] // resolved when that has ended
}

// acquire takes an idle connection, or makes one. Dial sees the values of the request's
// context.
func (p *pool) acquire(ctx context.Context, where place, values context.Context) (*clientConn, error) {
	for list := p.idle[where]; len(list) > 0; list = p.idle[where] {
		cc := list[len(list)-1]
		p.remove(cc)
		cc.scope.Cancel(nil)
		quiet, err := cc.quiet.Await(ctx)
		if err != nil {
			cc.close()
			return nil, err
		}
		if quiet {
			return cc, nil
		}
		cc.close()
	}
	cc := &clientConn{p: p, where: where}
	p.count(1)
	if err := cc.dial(ctx, values); err != nil {
		p.count(-1)
		return nil, err
	}
	cc.parser = http1.NewResponseParser(http1.Limits{HeaderBytes: p.c.MaxHeaderBytes})
	return cc, nil
}

func (cc *clientConn) dial(ctx, values context.Context) error {
	patience := or(cc.p.c.DialTimeout, 30*time.Second)
	if patience == 0 {
		return cc.connect(ctx, values)
	}
	late, err := spindle.MoveOnAfter(ctx, patience, func(ctx context.Context) error { return cc.connect(ctx, values) })
	if late {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	return err
}

// valued is a context of a task that has the values of another one too.
type valued struct {
	context.Context
	values context.Context
}

func (v valued) Value(key any) any {
	if value := v.Context.Value(key); value != nil {
		return value
	}
	return v.values.Value(key)
}

func (cc *clientConn) connect(ctx, values context.Context) error {
	c := cc.p.c
	dial := c.Dial
	if dial == nil {
		dial = stream.Dial
	}
	conn, err := dial(valued{ctx, values}, "tcp", cc.where.address)
	if err != nil {
		return err
	}
	if !cc.where.secure {
		cc.conn = conn
		return nil
	}
	config := &tls.Config{}
	if c.TLS != nil {
		config = c.TLS.Clone() // shares its cache of sessions
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(cc.where.address)
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

// close ends the connection, from any goroutine, once.
func (cc *clientConn) close() {
	if cc.closed.Swap(true) {
		return
	}
	cc.conn.Close()
	if cc.p.l.Owns() {
		cc.p.count(-1)
		return
	}
	if cc.p.l.Internal().Post(loopcore.DropAtClose, func() { cc.p.count(-1) }) != nil { // with the loop goes the pool
		c := cc.p.c
		c.mu.Lock()
		delete(c.pools, cc.p.home)
		c.mu.Unlock()
	}
}

// release gives the connection back, from any goroutine.
func (cc *clientConn) release() {
	if cc.p.l.Owns() {
		cc.p.put(cc)
		return
	}
	if cc.p.l.Internal().Post(loopcore.DropAtClose, func() { cc.p.put(cc) }) != nil {
		cc.close()
	}
}

// put keeps a connection for later, if there is room for it.
func (p *pool) put(cc *clientConn) {
	host := or(p.c.MaxIdlePerHost, 8)
	most := or(p.c.MaxIdle, 100)
	if cc.closed.Load() || p.home.Ended() || p.home.Scope().Err() != nil || len(p.idle[cc.where]) >= host || p.all >= most {
		cc.close()
		return
	}
	if cc.buf != nil {
		readBuffers.Put(cc.buf)
	}
	cc.used, cc.buf, cc.rest = true, nil, nil
	cc.parser.Reset()
	p.idle[cc.where] = append(p.idle[cc.where], cc)
	p.all++
	cc.quiet = spindle.NewFuture[bool](p.home.Scope())
	p.home.GoWith(spindle.TaskOptions{Name: "idle connection to " + cc.where.address, Eager: true, Values: context.Background()}, cc.watch)
}

// watch waits for what must not happen: the end, or bytes that nobody has asked
// for. Then, or after some time, the connection is closed.
func (cc *clientConn) watch(ctx context.Context) error {
	cc.scope = ctx.(*spindle.Scope)
	look := func(ctx context.Context) error {
		_, err := cc.conn.Read(make([]byte, 1))
		return err
	}
	var err error
	late := false
	if patience := or(cc.p.c.IdleTimeout, 90*time.Second); patience > 0 {
		late, err = spindle.MoveOnAfter(ctx, patience, look)
	} else {
		err = look(ctx)
	}
	var canceled *spindle.Canceled
	taken := errors.As(err, &canceled) && canceled.Scope == cc.scope && !late
	if !taken {
		cc.p.remove(cc)
		cc.close()
	}
	cc.quiet.Resolve(taken)
	return nil
}

// remove takes a connection out of the idle ones, if it is there.
func (p *pool) remove(cc *clientConn) {
	list := p.idle[cc.where]
	for i, other := range list {
		if other == cc {
			p.idle[cc.where] = append(list[:i], list[i+1:]...)
			if p.all--; len(list) == 1 {
				delete(p.idle, cc.where)
			}
			return
		}
	}
}

func (p *pool) closeIdle() {
	for _, list := range p.idle {
		for _, cc := range list {
			cc.close() // its watch ends, and removes it
		}
	}
}
