package web

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/traceparent"
)

// length returns the length of the body, or http1.Chunked.
func (t *trip) length() int64 {
	switch {
	case t.req.Body == nil || t.req.Body == http.NoBody || t.tunnels():
		return 0
	case t.req.ContentLength > 0 && len(t.req.Trailer) == 0:
		return t.req.ContentLength
	}
	return http1.Chunked
}

// tunnels reports whether the request's body is the sending side of a tunnel: CONNECT
// with a body of unknown length, which has no framing.
func (t *trip) tunnels() bool {
	r := t.req
	return r.Method == "CONNECT" && r.Body != nil && r.Body != http.NoBody && r.ContentLength <= 0
}

// maxInlineBody limits the bodies in memory that are sent with the header.
const maxInlineBody = 4 << 10

// head returns the request line and the header. It appends the body and sets whole if the
// body is small and in memory.
func (t *trip) head(c *Transport) (head []byte, err error) {
	r := t.req
	if err := invalidTrailer(r.Trailer); err != nil {
		return nil, err
	}
	h := r.Header
	add := func(key, value string) {
		if h = maps.Clone(h); h == nil {
			h = make(http.Header)
		}
		h[key] = []string{value}
	}
	if agents, ok := h["User-Agent"]; !ok {
		add("User-Agent", "spindle")
	} else if len(agents) == 0 || agents[0] == "" { // an empty value means that none is sent
		h = maps.Clone(h)
		delete(h, "User-Agent")
	} else if len(agents) > 1 {
		add("User-Agent", agents[0])
	}
	if !c.Plain && h.Get("Accept-Encoding") == "" && h.Get("Range") == "" && r.Method != "HEAD" {
		t.unzip = true
		add("Accept-Encoding", "gzip")
	}
	if sp, state := traceparent.Of(r.Context()); sp.Trace != [16]byte{} && len(h[traceparent.Header]) == 0 {
		add(traceparent.Header, sp.String())
		if state != "" {
			add(traceparent.StateHeader, state)
		}
	}
	length := t.length()
	if len(r.Trailer) > 0 && length == http1.Chunked {
		keys := make([]string, 0, len(r.Trailer))
		for key := range r.Trailer { // any order: sorted below
			keys = append(keys, textproto.CanonicalMIMEHeaderKey(key))
		}
		slices.Sort(keys)
		add("Trailer", strings.Join(keys, ","))
	}
	if length != 0 && http1.HasToken(h["Expect"], "100-continue") {
		t.mode = uploadAwaitsContinue
	}
	connection := http1.Unsaid
	if r.Close {
		connection = http1.Close
	}
	t.closing = r.Close || http1.HasToken(h["Connection"], "close")
	method := t.method()
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	host = http1.WithoutZone(host)
	target := r.URL.RequestURI()
	if method == "CONNECT" && r.URL.Path == "" {
		if target = host; r.URL.Opaque != "" {
			target = r.URL.Opaque
		}
	}
	head, err = http1.AppendRequestHead(make([]byte, 0, 1<<10), &http1.RequestHead{
		Method: method, Target: target, Host: host, Length: length, Connection: connection, Header: h,
	})
	if err != nil {
		return nil, invalidHead(method, target, host, h, err)
	}
	if length == 0 {
		if !t.tunnels() {
			t.mode = uploadWithHead
		}
		return head, nil
	}
	// A body with GetBody is in memory.
	if length < 0 || length > maxInlineBody || r.GetBody == nil || t.mode == uploadAwaitsContinue {
		return head, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, length+1))
	if err == nil && int64(len(body)) != length {
		err = wrongLength(length, int64(len(body)))
	}
	t.mode = uploadWithHead
	return append(head, body...), err
}

// invalidHead returns an error that names the part for which AppendRequestHead failed with
// err.
func invalidHead(method, target, host string, h http.Header, err error) error {
	if _, err := http1.AppendField(nil, method, ""); err != nil {
		return fmt.Errorf("web: invalid method %q", method)
	}
	if err == http1.ErrWriteTarget {
		return fmt.Errorf("web: invalid request target %q or host %q", target, host)
	}
	if name, invalid := invalidField(h); invalid != "" {
		return fmt.Errorf("web: invalid header field %s %q", invalid, name)
	}
	return err
}

// invalidTrailer returns the error of a trailer that cannot or must not be sent.
func invalidTrailer(h http.Header) error {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if !http1.MayTrail(name) {
			return fmt.Errorf("web: invalid trailer field name %q", name)
		}
	}
	if name, invalid := invalidField(h); invalid != "" {
		return fmt.Errorf("web: invalid trailer field %s %q", invalid, name)
	}
	return nil
}

// invalidField returns the name of a field that cannot be sent, and what is wrong with it.
func invalidField(h http.Header) (name, invalid string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if _, err := http1.AppendField(nil, name, ""); err != nil {
			return name, "name"
		}
		for _, value := range h[name] {
			if _, err := http1.AppendField(nil, name, value); err != nil {
				return name, "value for"
			}
		}
	}
	return "", ""
}

func wrongLength(want, got int64) error {
	if got > want {
		return fmt.Errorf("web: ContentLength=%d with a longer body", want)
	}
	return fmt.Errorf("web: ContentLength=%d with a body of %d bytes", want, got)
}
