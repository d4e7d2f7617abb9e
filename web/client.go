package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/intask"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/stream"
)

// Transport makes requests without blocking the loop. It is an http.RoundTripper: use it
// as the Transport of an http.Client, which adds redirects and cookies:
//
//	client := &http.Client{Transport: &web.Transport{}}
//	req, err := http.NewRequestWithContext(ctx, "GET", "https://example.org/", nil)
//	res, err := client.Do(req) // the task waits, the loop runs
//	defer res.Body.Close()
//
// The request's context is that of the calling task, or derived from it. It selects the
// loop of the connection, which stays open until that run ends at the latest. In a task,
// the current scope cancels the request. Other goroutines may use such a context too; they
// block until the loop has answered. A request with another context, such as one of
// http.Client.Get, fails with spindle.ErrNoTask unless the field Context is set.
//
// A connection is kept for the next request if the response's body was read to its end,
// or closed with little of it left. A task watches each idle connection, so that one
// closed by the server is not used again. If a kept connection fails before it received
// any byte of a response, a request that is safe to repeat is made on another one.
//
// Requests to a server that speaks HTTP/2 share a connection; see Protocols. If the server
// refuses a request there, or leaves before it has processed it, the request is repeated on
// another connection.
//
// Transport does not support proxies. A request with a trailer that must not be
// one, such as Content-Type, or that cannot be written, fails. Otherwise Transport behaves
// like net/http's Transport unless documented. The zero Transport is ready to use, by any number of
// tasks, loops and goroutines.
type Transport struct {
	// TLS is the configuration for https. It must not be changed. Nil means the
	// system's certificate authorities.
	TLS *tls.Config

	// Protocols are the versions of HTTP that are used, as in net/http: HTTP2 is HTTP/2 over
	// TLS, if the server agrees. UnencryptedHTTP2 without HTTP1 is HTTP/2 for URLs with the
	// scheme http. Nil means HTTP/1.1 and HTTP/2 over TLS.
	Protocols *http.Protocols

	// HTTP2 configures HTTP/2 connections. StrictMaxConcurrentRequests, MaxReadFrameSize,
	// MaxReceiveBufferPerConnection, MaxReceiveBufferPerStream, MaxDecoderHeaderTableSize,
	// SendPingTimeout, PingTimeout and WriteByteTimeout are used. Nil means windows of 1 MB
	// for a stream and 1 GB for a connection, and no pings.
	HTTP2 *http.HTTP2Config

	// Dial makes connections. Its context has the values of the request's. Nil means
	// stream.Dial.
	Dial func(ctx context.Context, network, address string) (*stream.Conn, error)

	// DialTimeout limits the time to make a connection, including the TLS handshake.
	// Zero means 30 seconds, negative no limit.
	DialTimeout time.Duration

	// HeaderTimeout limits the wait for a response's header after the request was
	// sent with its body. Zero means no limit besides the context's.
	HeaderTimeout time.Duration

	// ContinueTimeout limits how long a request with "Expect: 100-continue" waits
	// for a 100 response. Then its body is sent anyway. Zero means one second,
	// negative no limit.
	ContinueTimeout time.Duration

	// IdleTimeout limits how long an idle connection is kept. Zero means 90 seconds,
	// negative no limit.
	IdleTimeout time.Duration

	// MaxIdle limits the idle connections of each run, and MaxIdlePerHost those of
	// each host in a run and a version of HTTP. Zero means 100 and 8, negative none.
	MaxIdle, MaxIdlePerHost int

	// MaxHeaderBytes limits the header of a response. Zero means 64 KB.
	MaxHeaderBytes int

	// Plain disables transparent decompression. Otherwise a request without
	// Accept-Encoding asks for gzip, and the response's body is decompressed.
	Plain bool

	// Context is a task's context. If it is set, all requests are made in its run;
	// their own contexts cancel them and provide values. So code that does not use
	// tasks can make requests.
	Context context.Context

	mu    sync.Mutex
	pools map[*spindle.Nursery]*pool // of runs that have not ended; guarded by mu
	made  uint64                     // pools so far; guarded by mu
}

var _ http.RoundTripper = (*Transport)(nil)

// errMalformedResponse is the error of a response that a server must not send. The error
// that wraps it has the details; no program decides by them.
var errMalformedResponse = errors.New("web: malformed response")

// errNoTask is the error of a request if neither its context nor Transport.Context comes
// from a task.
var errNoTask = fmt.Errorf("web: %w; make the request by http.NewRequestWithContext with a task's context, or set Context of the web.Transport", spindle.ErrNoTask)

// orDefault returns the limit that a field sets: zero for none if the field is negative,
// and fallback if the field is zero.
func orDefault[T int | time.Duration](value, fallback T) T {
	switch {
	case value == 0:
		return fallback
	case value < 0:
		return 0
	}
	return value
}

// RoundTrip makes one request. It may be called by tasks and other goroutines, not by
// callbacks.
func (c *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := c.Context
	if base == nil {
		base = req.Context()
	}
	if spindle.ScopeOf(base) == nil {
		closeBody(req)
		return nil, errNoTask
	}
	if tracer := spindle.TracerOf(base); tracer != nil {
		return c.tracedTrip(tracer, base, req)
	}
	return c.roundTrip(base, req)
}

// roundTrip makes the request in the run that base belongs to.
func (c *Transport) roundTrip(base context.Context, req *http.Request) (*http.Response, error) {
	nursery := spindle.RootNursery(base)
	if ctx := coro.Here(spindle.LoopOf(base)); ctx != nil {
		return c.untilDone(ctx, req, nursery, inTask)
	}
	caller, ok := onloop.Caller(spindle.LoopOf(base))
	if !ok {
		panic("web: Transport.RoundTrip called from a callback of a loop; start a task")
	}
	// The run may end before the task starts. Then nothing else closes the body.
	var taken atomic.Bool
	res, err := intask.Run(caller, nursery, req.Method+" request", func(ctx context.Context) (*http.Response, error) {
		if taken.Swap(true) {
			return nil, net.ErrClosed
		}
		return c.untilDone(ctx, req, nursery, inGoroutine)
	})
	if err != nil && !taken.Swap(true) {
		closeBody(req)
	}
	return res, err
}

// caller is the kind of goroutine that made a request. A task's request body is read by a
// task, where it must not block the thread; another goroutine's body may block.
type caller uint8

const (
	inTask caller = iota
	inGoroutine
)

// untilDone makes the request in a task, and cancels it when the request's context ends.
func (c *Transport) untilDone(ctx context.Context, req *http.Request, nursery *spindle.Nursery, from caller) (res *http.Response, err error) {
	theirs := req.Context()
	if theirs == ctx || theirs.Done() == nil {
		return c.send(ctx, req, nursery, from)
	}
	if theirs.Err() != nil { // AfterFunc would cancel too late
		closeBody(req)
		return nil, from.ended(theirs)
	}
	canceled := false // with theirs
	err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
		l := spindle.LoopOf(ctx)
		stop := l.Internal().AfterFunc(theirs, func() { s.Cancel(context.Cause(theirs)) })
		defer stop()
		var err error
		res, err = c.send(ctx, req, nursery, from)
		why, ok := errors.AsType[*spindle.Canceled](err)
		canceled = ok && why.Scope == s
		return err
	})
	if canceled {
		err = from.ended(theirs)
	}
	return res, err
}

// ended is the function ended for the caller, on the loop. A goroutine that uses the context
// of a task is in no scope.
func (from caller) ended(ctx context.Context) error {
	if from == inGoroutine {
		return context.Cause(ctx)
	}
	return ended(ctx)
}

// ended returns the error of a wait with ctx, which is done. In a task it is that of a
// cancelled wait: a scope absorbs its own cancellation, and only that.
func ended(ctx context.Context) error {
	if spindle.Current(ctx) != nil {
		if err := spindle.Checkpoint(ctx); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// send makes the request, and repeats it if that is safe: its connection was stale, or the
// server has not processed it.
func (c *Transport) send(ctx context.Context, req *http.Request, nursery *spindle.Nursery, from caller) (*http.Response, error) {
	to, err := c.endpointOf(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	p := c.pool(nursery)
	original := req
	for refusals := 0; ; {
		t := &trip{p: p, req: req, caller: from}
		head, err := t.connect(ctx, to, original.Context())
		if err != nil {
			t.closeBody()
			return nil, err
		}
		res, err := t.run(ctx, head)
		if err == nil {
			res.Request = original
			return res, nil
		}
		again := t.mayRepeat(err) // before closeBody makes the body fail
		t.abandon()
		t.closeBody() // a Read may be waiting
		if !again {
			return nil, err
		}
		if errors.Is(err, errUnprocessed) {
			refusals++
			if late := waitToRepeat(ctx, refusals, err); late != nil {
				return nil, late
			}
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

// connect prepares the request and finds or makes a connection. The head comes first, so that
// a bad request makes no connection. It is encoded for the protocol that is likely.
func (t *trip) connect(ctx context.Context, to endpoint, values context.Context) (head []byte, err error) {
	if err := t.prepare(t.p.c); err != nil {
		return nil, err
	}
	likely := t.p.likely(to)
	if head, err = t.encode(likely); err != nil {
		return nil, err
	}
	if err := t.readSmall(); err != nil {
		return nil, err
	}
	cc, hc, err := t.p.acquire(ctx, to, values)
	if err != nil {
		return nil, err
	}
	actual := version1
	if t.cc = cc; hc != nil {
		t.call, actual = hc.newCall(t), version2
	}
	if actual != likely {
		if head, err = t.encode(actual); err != nil && cc != nil {
			cc.close()
		}
	}
	return head, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// CloseIdleConnections closes the connections that no request uses. It may be called from
// any goroutine, and does not wait.
func (c *Transport) CloseIdleConnections() {
	c.mu.Lock()
	pools := slices.SortedFunc(maps.Values(c.pools), func(a, b *pool) int { return cmp.Compare(a.number, b.number) })
	c.mu.Unlock()
	for _, p := range pools {
		if p.l.Owns() {
			p.closeIdle()
		} else {
			_ = p.l.Internal().Post(atclose.Drop, p.closeIdle) // a loop that is closed has closed them
		}
	}
}
