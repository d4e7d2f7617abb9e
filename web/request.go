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

// describe fills in the request as net/http describes it, except for its context.
func (x *exchange) describe(header http.Header, host string) {
	r := &x.req
	r.Method = x.method
	r.URL = &x.url
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if x.version == http1.HTTP10 {
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	}
	r.Header = header
	r.Host = host
	r.RemoteAddr = x.remote
	r.TLS = x.c.tls
	r.RequestURI = x.target
	r.Close = !x.keepAlive
	if x.body == nil {
		r.Body = http.NoBody
		return
	}
	r.Body, r.ContentLength = x.body, x.body.length
	if r.ContentLength < 0 {
		// Trailer is never nil here, unlike net/http's: copies of the request share
		// the map, so they get trailers that were not declared too.
		r.TransferEncoding = []string{"chunked"}
		r.Trailer = x.body.trailers
	}
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
	cause error     // once it has ended; guarded by mu
	seen  *observed // nil for most; guarded by mu
}

// observed is what a request's context has once Done or CloseNotify was called.
type observed struct {
	inner context.Context // nil before std
	stop  context.CancelCauseFunc
	gone  chan bool // for CloseNotify; nil before notify
}

// observe returns seen, which it makes if need be; under mu.
func (c *requestContext) observe() *observed {
	if c.seen == nil {
		c.seen = &observed{}
	}
	return c.seen
}

// TaskName names the task of an inline handler.
func (c *requestContext) TaskName() string { return c.x.method + " " + c.x.url.Path }

// std is a context of the standard library that ends with this one.
func (c *requestContext) std() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.observe()
	if o.inner == nil {
		base := c.base
		if base == nil {
			base = context.Background()
		}
		o.inner, o.stop = context.WithCancelCause(base)
		if c.cause != nil {
			o.stop(c.cause)
		}
	}
	return o.inner
}

// end ends the context; the first cause counts.
func (c *requestContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	o := c.seen
	if o == nil {
		return
	}
	if o.stop != nil {
		o.stop(cause)
	}
	if o.gone != nil && cause != context.Canceled {
		o.gone <- true
	}
}

// notify returns a channel that gets a value when the connection is lost before the
// handler has returned. It never does if the handler has.
func (c *requestContext) notify() <-chan bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.observe()
	if o.gone == nil {
		o.gone = make(chan bool, 1)
		if c.cause != nil && c.cause != context.Canceled {
			o.gone <- true
		}
	}
	return o.gone
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
	case exchangeKey:
		return c.x
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

// keepRemotes is how many addresses are kept on a loop: of those at work, not of all
// who are connected.
const keepRemotes = 1024
