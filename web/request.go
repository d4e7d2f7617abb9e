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

// setURL parses the target like url.ParseRequestURI. It does not allocate for plain paths.
// It reports whether the target is valid.
func setURL(u *url.URL, method, target string) bool {
	if method == "CONNECT" && !strings.HasPrefix(target, "/") { // not an extended one
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

// plainPath reports whether nothing in the path is escaped or would have to be.
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

// remoteAddr returns the peer's address as a string.
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

// keepRemotes is how many addresses are kept on a loop: those of active connections, not
// of all that are open.
const keepRemotes = 1024

// requestContext is the context of a request. It ends when the handler returns, or with the
// connection. Most handlers never use it, so it makes a standard context only when one is
// needed. The scope of an inline handler looks values up in it.
type requestContext struct {
	x    *exchange
	base context.Context // from BaseContext or ConnContext; nil without them

	mu    sync.Mutex
	cause error         // set when the context ends; guarded by mu
	watch *contextWatch // nil for most; guarded by mu
}

// contextWatch is what a request's context has once Done or CloseNotify was called.
type contextWatch struct {
	inner  context.Context // nil before std is called
	stop   context.CancelCauseFunc
	closed chan bool // of CloseNotify; nil before closeNotify is called
}

// ensureWatch returns c.watch, which it makes if necessary. The caller holds mu.
func (c *requestContext) ensureWatch() *contextWatch {
	if c.watch == nil {
		c.watch = &contextWatch{}
	}
	return c.watch
}

// TaskName returns the name of an inline handler's task. The path is as it was sent: an
// unescaped one could begin another line of a tree.
func (c *requestContext) TaskName() string { return c.PeekTaskName() }

// PeekTaskName is TaskName for the watchdog, which calls it from another goroutine. The
// handler may be changing its URL. It cannot change the method and the target of the
// exchange, which is never reused.
//
//go:norace
func (c *requestContext) PeekTaskName() string {
	path, _, _ := strings.Cut(c.x.target, "?")
	return c.x.method + " " + path
}

// std returns a context of the standard library that ends with c.
func (c *requestContext) std() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.ensureWatch()
	if w.inner == nil {
		base := c.base
		if base == nil {
			base = context.Background()
		}
		w.inner, w.stop = context.WithCancelCause(base)
		if c.cause != nil {
			w.stop(c.cause)
		}
	}
	return w.inner
}

// end ends the context. The first cause counts.
func (c *requestContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	w := c.watch
	if w == nil {
		return
	}
	if w.stop != nil {
		w.stop(cause)
	}
	if w.closed != nil && cause != context.Canceled {
		w.closed <- true
	}
}

// closeNotify returns a channel that receives a value when the connection is lost before
// the handler returns.
func (c *requestContext) closeNotify() <-chan bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.ensureWatch()
	if w.closed == nil {
		w.closed = make(chan bool, 1)
		if c.cause != nil && c.cause != context.Canceled {
			w.closed <- true
		}
	}
	return w.closed
}

// ended returns the cause if the context has ended, and nil otherwise.
func (c *requestContext) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Deadline returns the base context's deadline. The server's time-outs are per connection.
func (c *requestContext) Deadline() (time.Time, bool) {
	if c.base == nil {
		return time.Time{}, false
	}
	return c.base.Deadline()
}

// Done returns a channel that is closed when the request has ended.
func (c *requestContext) Done() <-chan struct{} { return c.std().Done() }

// Err returns context.Canceled once the request has ended, or the base context's error.
func (c *requestContext) Err() error {
	if c.base != nil {
		return c.std().Err()
	}
	if c.ended() != nil {
		return context.Canceled
	}
	return nil
}

// Value answers http.ServerContextKey and http.LocalAddrContextKey. The context package's
// own key, an *int, is answered by the context that std returns, so that context.Cause
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

// localAddr returns the address that the request came to.
func (x *exchange) localAddr() (a net.Addr) {
	a = x.st.sv.Addr()
	if tcp, ok := a.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		return a // of every connection
	}
	_ = x.st.do(func() error {
		if x.c.phase != connLost {
			a = x.c.tc.LocalAddr()
		}
		return nil
	})
	return a
}
