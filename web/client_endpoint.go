package web

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/spindleloop/spindle/internal/http1"
)

// endpoint identifies the connections that can serve a request.
type endpoint struct {
	secure  bool
	only1   bool   // the request needs HTTP/1.1, where others may use HTTP/2
	address string // host and port
}

// compare orders endpoints.
func (e endpoint) compare(o endpoint) int {
	return cmp.Or(before(e.secure, o.secure), before(e.only1, o.only1), cmp.Compare(e.address, o.address))
}

// before compares booleans: false is less.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (c *Transport) endpointOf(req *http.Request) (endpoint, error) {
	switch {
	case req.URL == nil:
		return endpoint{}, errors.New("web: nil Request.URL")
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return endpoint{}, fmt.Errorf("web: unsupported protocol scheme %q", req.URL.Scheme)
	case req.URL.Host == "":
		return endpoint{}, errors.New("web: no Host in request URL")
	}
	to := endpoint{secure: req.URL.Scheme == "https"}
	port := req.URL.Port()
	if port == "" {
		if port = "80"; to.secure {
			port = "443"
		}
	}
	to.address = net.JoinHostPort(req.URL.Hostname(), port)
	p := c.protocols()
	to.only1 = p.HTTP1() && c.may2(to) && http1.HasToken(req.Header["Connection"], "upgrade")
	return to, nil
}

// version is a version of HTTP.
type version uint8

const (
	version1 version = iota // HTTP/1.0 or HTTP/1.1
	version2
)

// protocols returns what the Transport speaks: HTTP/1.1, and HTTP/2 over TLS, by default.
func (c *Transport) protocols() http.Protocols { return protocolsOr(c.Protocols) }

// protocolsOr returns the protocols of a Server or Transport, or the default.
func protocolsOr(set *http.Protocols) (p http.Protocols) {
	if set != nil {
		p = *set
	}
	if p == (http.Protocols{}) {
		p.SetHTTP1(true)
		p.SetHTTP2(true)
	}
	return p
}

// may2 reports whether connections to an endpoint may speak HTTP/2.
func (c *Transport) may2(to endpoint) bool {
	p := c.protocols()
	switch {
	case to.only1:
		return false
	case to.secure:
		return p.HTTP2()
	}
	return p.UnencryptedHTTP2() && !p.HTTP1()
}
