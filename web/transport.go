package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/intask"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/stream"
)

// Transport makes requests without blocking the loop. It is an http.RoundTripper, to be
// used as the Transport of an http.Client, which adds redirects and cookies:
//
//	client := &http.Client{Transport: &web.Transport{}}
//	req, err := http.NewRequestWithContext(ctx, "GET", "https://example.org/", nil)
//	res, err := client.Do(req) // the task waits, the loop turns
//	defer res.Body.Close()
//
// The request's context is that of the calling task, or derived from it, and decides
// on which loop the connection is, and for how long: until that run ends. In a task
// the scope it is in cancels what it waits for; any other goroutine may use such a
// context too, and waits for the loop. A request with another context, as Get of an
// http.Client makes one, fails with ErrNoTask unless the field Context is set.
//
// A connection is kept for the next request when a response's body was read to its
// end, or closed with little of it left. It is then watched by a task, so that one
// that the server closes is not used again. If one fails all the same before it
// brought anything, a request that does no harm twice is made again on another.
//
// Speaking HTTP/2, and through proxies, are left out. Where nothing else is said, it
// does as net/http's Transport does. The zero Transport is ready to be used, by any
// number of tasks, loops and goroutines.
type Transport struct {
	// TLS is for https. It must not be changed. Nil means the system's
	// authorities.
	TLS *tls.Config

	// Dial makes connections. Nil means stream.Dial.
	Dial func(ctx context.Context, network, address string) (*stream.Conn, error)

	// DialTimeout is for a connection, with the handshake of TLS. Zero means 30
	// seconds, negative no limit.
	DialTimeout time.Duration

	// HeaderTimeout is how long a server may take for the header of a response,
	// when the request was sent. Zero means no limit, as the context has one.
	HeaderTimeout time.Duration

	// ContinueTimeout is how long a request with "Expect: 100-continue" waits
	// for the server to say so, before its body is sent all the same. Zero means
	// one second, negative for ever.
	ContinueTimeout time.Duration

	// IdleTimeout is how long an idle connection is kept. Zero means 90 seconds,
	// negative for ever.
	IdleTimeout time.Duration

	// MaxIdle is how many idle connections are kept for each run, and
	// MaxIdlePerHost for each of its hosts. Zero means 100 and 8; negative none.
	MaxIdle, MaxIdlePerHost int

	// MaxHeaderBytes is how large the header of a response may be. Zero means
	// 64 KB.
	MaxHeaderBytes int

	// Plain has bodies be as they are sent. Otherwise gzip is asked for, and
	// undone, where the request does not ask for anything itself.
	Plain bool

	// Context is one of a task. If it is there, all requests are made in its run,
	// and of their own contexts only their end counts: so code that knows
	// nothing of tasks can make them.
	Context context.Context

	mu    sync.Mutex
	pools map[*spindle.Nursery]*pool // those with connections; guarded by mu
}

var _ http.RoundTripper = (*Transport)(nil)

// ErrMalformedResponse is for what a server must not send. What it was is said by
// the error around it.
var ErrMalformedResponse = errors.New("web: malformed response")

// ErrNoTask is what a request fails with if neither its context nor Transport.Context comes
// from a task.
var ErrNoTask = errors.New("web: the request's context does not come from a task; make it by http.NewRequestWithContext with a task's context, or set Context of the web.Transport")

// or is a setting: what zero means, or none if it is negative.
func or[T int | time.Duration](value, zero T) T {
	switch {
	case value == 0:
		return zero
	case value < 0:
		return 0
	}
	return value
}

// RoundTrip makes one request. It is for tasks and for other goroutines, not for
// callbacks.
func (c *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := c.Context
	if base == nil {
		base = req.Context()
	}
	if spindle.ScopeOf(base) == nil {
		closeBody(req)
		return nil, ErrNoTask
	}
	home := spindle.RootNursery(base)
	if ctx := coro.Here(spindle.LoopOf(base).Internal()); ctx != nil {
		return c.until(ctx, req, home, inTask)
	}
	if spindle.LoopOf(base).Owns() {
		panic("web: Transport.RoundTrip called from a callback of the loop; start a task")
	}
	return intask.Run(home, req.Method+" request", func(ctx context.Context) (*http.Response, error) {
		return c.until(ctx, req, home, inGoroutine)
	})
}

// caller is who reads and writes bodies: a task, which must not be blocked by
// anything else than waits, or a goroutine.
type caller uint8

const (
	inTask caller = iota
	inGoroutine
)

// until makes the request in a task, giving up when the request's context ends.
func (c *Transport) until(ctx context.Context, req *http.Request, home *spindle.Nursery, who caller) (res *http.Response, err error) {
	theirs := req.Context()
	if theirs == ctx || theirs.Done() == nil {
		return c.send(ctx, req, home, who)
	}
	if theirs.Err() != nil { // the cancellation below would come too late
		closeBody(req)
		return nil, context.Cause(theirs)
	}
	err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
		l := spindle.LoopOf(ctx)
		stop := l.Internal().Kernel().AfterFunc(theirs, func() { l.Internal().Post(loopcore.DropAtClose, func() { s.Cancel(context.Cause(theirs)) }) })
		defer stop()
		var err error
		res, err = c.send(ctx, req, home, who)
		var canceled *spindle.Canceled
		if errors.As(err, &canceled) && canceled.Scope == s {
			return context.Cause(theirs)
		}
		return err
	})
	return res, err
}

// send makes the request, again if need be.
func (c *Transport) send(ctx context.Context, req *http.Request, home *spindle.Nursery, who caller) (*http.Response, error) {
	where, err := placeOf(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	p := c.pool(home)
	original := req
	for {
		t := &trip{req: req, who: who}
		head, err := t.head(c) // before a connection is made, so that a bad request makes none
		if err != nil {
			t.closeBody()
			return nil, err
		}
		cc, err := p.acquire(ctx, where, original.Context())
		if err != nil {
			t.closeBody()
			return nil, err
		}
		t.cc = cc
		res, err := t.run(ctx, head)
		if err == nil {
			res.Request = original
			return res, nil
		}
		cc.close()
		t.closeBody() // its Read may be waiting
		if !t.mayRepeat(err) {
			return nil, err
		}
		if req.Body != nil && req.Body != http.NoBody {
			again := *req
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			req = &again
		}
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// place is where connections go to.
type place struct {
	secure  bool
	address string // host and port
}

func placeOf(req *http.Request) (place, error) {
	switch {
	case req.URL == nil:
		return place{}, errors.New("web: nil Request.URL")
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return place{}, fmt.Errorf("web: unsupported protocol scheme %q", req.URL.Scheme)
	case req.URL.Host == "":
		return place{}, errors.New("web: no Host in request URL")
	}
	secure := req.URL.Scheme == "https"
	port := req.URL.Port()
	if port == "" {
		if port = "80"; secure {
			port = "443"
		}
	}
	return place{secure, net.JoinHostPort(req.URL.Hostname(), port)}, nil
}

// CloseIdleConnections closes those connections that no request is using. It may be
// called from any goroutine, and does not wait.
func (c *Transport) CloseIdleConnections() {
	c.mu.Lock()
	pools := slices.Collect(maps.Values(c.pools))
	c.mu.Unlock()
	for _, p := range pools {
		if p.l.Owns() {
			p.closeIdle()
		} else {
			_ = p.l.Internal().Post(loopcore.DropAtClose, p.closeIdle) // a loop that is closed has closed them
		}
	}
}
