package web

import (
	"net/http"
	"net/url"
	"strings"

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
