package pyapp

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/tracing"
)

// mountHeader is the field that carries what Python cannot see: the address of the client,
// flags, and the root path, with "-" for none. Python removes it from the request. Only the Unix socket, which
// other users cannot reach, is trusted with it: a field of this name that comes from outside is
// dropped.
const mountHeader = "Spindle-Mount"

// hopByHop are the fields that concern one connection.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Transfer-Encoding": true,
	"Upgrade": true, "Te": true, "Trailer": true,
}

// appendHead appends the head of the request to b. An upgrade is a protocol that the
// client wants to switch to, or "".
func appendHead(b []byte, r *http.Request, upgrade string) []byte {
	target, root := split(r)
	onStream := isStreamSocket(r)
	if onStream {
		b = append(b, http.MethodGet...)
	} else {
		b = append(b, r.Method...)
	}
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", r.Host)
	nominated := r.Header["Connection"]
	trace := tracing.Of(r.Context())
	forwarded := false
	for name, values := range r.Header {
		switch {
		case name == mountHeader, name == "Host", name == "Content-Length", hopByHop[name], name == ":protocol":
			continue
		case onStream && name == "Sec-Websocket-Key":
			continue
		case name == "Traceparent" && trace != tracing.Context{}:
			continue
		case name == "X-Forwarded-For" || name == "X-Forwarded-Proto":
			forwarded = true
		}
		if len(nominated) > 0 && http1.HasToken(nominated, name) {
			continue
		}
		for _, value := range values {
			b = appendField(b, name, value)
		}
	}
	if trace != (tracing.Context{}) {
		b = appendField(b, "Traceparent", trace.String())
	}
	if r.ProtoMajor == 2 || http1.HasToken(r.Header["Te"], "trailers") {
		b = appendField(b, "Te", "trailers")
	}
	if upgrade != "" {
		b = append(b, "Connection: Upgrade\r\n"...)
		b = appendField(b, "Upgrade", upgrade)
	}
	switch {
	case onStream: // what follows is the WebSocket, and needs no proof that it is meant as one
		b = appendField(b, "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	case r.ContentLength > 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, r.ContentLength, 10)
		b = append(b, "\r\n"...)
	case r.ContentLength < 0 && hasBody(r):
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case r.Header["Content-Length"] != nil:
		b = append(b, "Content-Length: 0\r\n"...)
	}
	b = appendMount(b, r, root, forwarded)
	return append(b, "\r\n"...)
}

// appendMount appends the field of the mount: address, flags and root path.
func appendMount(b []byte, r *http.Request, root string, forwarded bool) []byte {
	b = append(b, mountHeader+": "...)
	if r.RemoteAddr == "" || strings.ContainsAny(r.RemoteAddr, " \r\n") || forwarded && cameToUnixSocket(r) {
		b = append(b, '-')
	} else {
		b = append(b, r.RemoteAddr...)
	}
	b = append(b, " -"...)
	if r.TLS != nil {
		b = append(b, 's')
	}
	if forwarded {
		b = append(b, 'f')
	}
	if r.ProtoMajor == 2 {
		b = append(b, '2')
	}
	b = append(b, ' ')
	if root == "" {
		root = "-"
	}
	b = append(b, root...)
	return append(b, "\r\n"...)
}

// cameToUnixSocket reports whether a request came to a Unix socket. A client there may bind its
// end to any path, also to one that is the address of a trusted proxy.
func cameToUnixSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// appendField appends a field. A value cannot begin another line.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	from := len(b)
	b = append(b, value...)
	for i, c := range b[from:] {
		if c == '\r' || c == '\n' || c == 0 {
			b[from+i] = ' '
		}
	}
	return append(b, "\r\n"...)
}

// split returns the target for the request line, and the part of its path that was stripped
// before the request came here: the app's root path, without a slash at its end.
func split(r *http.Request) (target, root string) {
	path := r.URL.EscapedPath()
	if uri, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(uri, "/") && len(uri) > len(path) && strings.HasSuffix(uri, path) {
		root = uri[:len(uri)-len(path)]
		if strings.HasPrefix(path, "/") || path == "" {
			path = root + path
		} else {
			path, root = uri, strings.TrimSuffix(root, "/")
		}
	}
	if path == "" {
		path = "/"
	}
	target = path
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		target += "?" + r.URL.RawQuery
	}
	if strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		target = (&url.URL{Path: r.URL.Path, RawQuery: url.PathEscape(r.URL.RawQuery)}).RequestURI() // made by a program
		root = ""
	}
	return target, strings.TrimSuffix(root, "/")
}

// upgradeOf returns the protocol that the client wants to switch to, or "".
func upgradeOf(r *http.Request) string {
	switch {
	case isStreamSocket(r):
		return "websocket"
	case r.ProtoMajor == 1 && http1.HasToken(r.Header["Connection"], "upgrade"):
		return r.Header.Get("Upgrade")
	}
	return ""
}

// isStreamSocket reports whether a request opens a WebSocket on a stream of HTTP/2 (RFC 8441).
func isStreamSocket(r *http.Request) bool {
	return r.ProtoMajor == 2 && r.Method == http.MethodConnect && slices.Equal(r.Header[":protocol"], []string{"websocket"})
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }
