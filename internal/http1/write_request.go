package http1

import (
	"net/http"
	"strings"
)

// RequestHead is the head that AppendRequestHead writes.
type RequestHead struct {
	// Method and Target are the parts of the request line. Target is a path and
	// query, an absolute URL for a proxy, host and port for CONNECT, or an asterisk.
	Method, Target string
	// Host is the value of the Host field; it may be empty.
	Host string
	// Length is the length of the body, or Chunked.
	Length int64
	// Connection selects the Connection field, unless Header has one.
	Connection Connection
	// Header is written in the order of its keys, without Host, Content-Length and
	// Transfer-Encoding.
	Header http.Header
}

// AppendRequestHead appends the request line, the header and the empty line. If a part
// is invalid, it returns dst unchanged and an error.
func AppendRequestHead(dst []byte, r *RequestHead) ([]byte, error) {
	if r.Length < Chunked {
		panic("http1: request with an unknown length")
	}
	b, err := AppendRequestLine(dst, r)
	if err != nil {
		return dst, err
	}
	b = append(b, "Host: "...)
	b = append(b, r.Host...)
	b = append(b, "\r\n"...)
	b, err = appendHeader(b, r.Header, omitFraming|omitHost)
	if err != nil {
		return dst, err
	}
	b = appendConnection(b, r.Connection, r.Header)
	if r.Length != 0 || r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH" {
		b = appendFraming(b, r.Length)
	}
	return append(b, "\r\n"...), nil
}

// AppendRequestLine appends the request line. If the method, the target or the host of r is
// invalid, it returns dst unchanged and ErrWriteTarget.
func AppendRequestLine(dst []byte, r *RequestHead) ([]byte, error) {
	b := append(dst, r.Method...)
	b = append(b, ' ')
	b = append(b, r.Target...)
	b = append(b, " HTTP/1.1\r\n"...)
	// The parser decides how a server would read the line.
	p := parser{maxPos: largest}
	if ok, err := p.requestLine(b[len(dst):]); !ok || err != nil || p.pos != len(b)-len(dst) {
		return dst, ErrWriteTarget
	}
	if r.Host != "" && !validHost([]byte(r.Host)) {
		return dst, ErrWriteTarget
	}
	return b, nil
}

// WithoutZone returns host without the zone of an IPv6 address in brackets. A zone has a
// meaning only on the machine that uses the address (RFC 6874), and validHost refuses it.
func WithoutZone(host string) string {
	end := strings.IndexByte(host, ']')
	if zone := strings.IndexByte(host, '%'); strings.HasPrefix(host, "[") && 0 < zone && zone < end {
		return host[:zone] + host[end:]
	}
	return host
}
