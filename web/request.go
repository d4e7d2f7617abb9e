package web

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/http1"
)

// blank is what every request begins as: WithContext is the only way to give one a
// context, and copies it. The copy stays on the stack.
var blank http.Request

// request is the exchange as net/http has it.
func (x *exchange) request(ctx context.Context) *http.Request {
	r := &x.req
	*r = *blank.WithContext(ctx)
	r.Method = x.method
	r.URL = &x.url
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if x.version == http1.HTTP10 {
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	}
	r.Header = x.header
	r.Host = x.host
	r.RemoteAddr = x.remote
	r.TLS = x.tls
	r.RequestURI = x.target
	r.ContentLength = x.length
	r.Close = !x.keepAlive
	if x.length < 0 {
		// Trailer is never nil here, unlike net/http's: copies of the request share
		// the map, so they get trailers that were not declared too.
		r.TransferEncoding = []string{"chunked"}
		r.Trailer = x.body.trailers
	}
	if x.length == 0 {
		r.Body = http.NoBody
	} else {
		r.Body = x.body
	}
	return r
}

// setURL is url.ParseRequestURI, without allocation for what is plain.
func setURL(u *url.URL, method, target string) bool {
	if method == "CONNECT" {
		parsed, err := url.ParseRequestURI("http://" + target)
		if err != nil {
			return false
		}
		*u = *parsed
		u.Scheme = ""
		return true
	}
	path, query, found := strings.Cut(target, "?")
	if plainPath(path) {
		u.Path, u.RawQuery, u.ForceQuery = path, query, found && query == ""
		return true
	}
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	*u = *parsed
	return true
}

// plainPath tells whether a path stands for itself: nothing is escaped, and nothing
// would have to be.
func plainPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c|0x20-'a' < 26, c-'0' < 10, c == '/', c == '-', c == '_', c == '.', c == '~':
		default:
			return false
		}
	}
	return true
}

// requestContext is the context of a request: it ends when the handler has returned,
// or with the connection. Most handlers never look at it, so there is nothing behind
// it before one does. For inline handlers it is where their scope looks values up.
type requestContext struct {
	x    *exchange
	base context.Context // of BaseContext or ConnContext; nil without them

	mu    sync.Mutex
	inner context.Context // guarded by mu
	stop  context.CancelCauseFunc
	cause error     // once it has ended; guarded by mu
	gone  chan bool // for CloseNotify; nil if that was not called; guarded by mu
}

// TaskName names the task of an inline handler.
func (c *requestContext) TaskName() string { return c.x.method + " " + c.x.url.Path }

// std is a context of the standard library that ends with this one.
func (c *requestContext) std() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		base := c.base
		if base == nil {
			base = context.Background()
		}
		c.inner, c.stop = context.WithCancelCause(base)
		if c.cause != nil {
			c.stop(c.cause)
		}
	}
	return c.inner
}

// end ends the context; the first cause counts.
func (c *requestContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	if c.stop != nil {
		c.stop(cause)
	}
	if c.gone != nil && cause != context.Canceled {
		c.gone <- true
	}
}

// notify returns a channel that gets a value when the connection is lost before the
// handler has returned. It never does if the handler has.
func (c *requestContext) notify() <-chan bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil {
		c.gone = make(chan bool, 1)
		if c.cause != nil && c.cause != context.Canceled {
			c.gone <- true
		}
	}
	return c.gone
}

// ended is the cause if it has, and nil otherwise.
func (c *requestContext) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Deadline is that of the base context: time-outs are of the connection.
func (c *requestContext) Deadline() (time.Time, bool) {
	if c.base == nil {
		return time.Time{}, false
	}
	return c.base.Deadline()
}

// Done is closed when the request has ended.
func (c *requestContext) Done() <-chan struct{} { return c.std().Done() }

// Err is context.Canceled once the request has ended, or the base context's error.
func (c *requestContext) Err() error {
	if c.base != nil {
		return c.std().Err()
	}
	if c.ended() != nil {
		return context.Canceled
	}
	return nil
}

// Value knows http.ServerContextKey and http.LocalAddrContextKey. The context package's
// own key, an *int, is answered by the context that std made, so that context.Cause
// works and derived contexts need no goroutine.
func (c *requestContext) Value(key any) any {
	switch key.(type) {
	case *int:
		return c.std().Value(key)
	}
	switch key {
	case http.ServerContextKey:
		return c.x.st.sv.std
	case http.LocalAddrContextKey:
		return c.x.localAddr()
	}
	if c.base != nil {
		return c.base.Value(key)
	}
	return nil
}

// localAddr is the address that the request came to.
func (x *exchange) localAddr() (a net.Addr) {
	a = x.st.sv.Addr()
	_ = x.st.do(func() error {
		if !x.c.is(gone) {
			a = x.c.tc.LocalAddr()
		}
		return nil
	})
	return a
}

// remoteAddr is the peer's address as a string.
func (c *conn) remoteAddr() string {
	st := c.st
	if remote, ok := st.remotes[c]; ok {
		return remote
	}
	if len(st.remotes) >= keepRemotes {
		clear(st.remotes)
	}
	remote := c.tc.RemoteAddr().String()
	st.remotes[c] = remote
	return remote
}

// keepRemotes is how many addresses a station keeps: of those at work, not of all
// who are connected.
const keepRemotes = 1024
