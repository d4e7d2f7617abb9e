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
	"github.com/spindleloop/spindle/tracing"
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

// prepare determines the head of the request, and how its body is sent.
func (t *trip) prepare(c *Transport) error {
	r := t.req
	if err := invalidTrailer(r.Trailer); err != nil {
		return err
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
	if trace := tracing.Of(r.Context()); trace != (tracing.Context{}) && len(h[traceparent.Header]) == 0 {
		add(traceparent.Header, trace.String())
		if trace.State != "" {
			add(traceparent.StateHeader, trace.State)
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
	} else if length == 0 && !t.tunnels() {
		t.mode = uploadWithHead
	}
	t.closing = r.Close || http1.HasToken(h["Connection"], "close")
	t.head = http1.RequestHead{Method: t.method(), Target: r.URL.RequestURI(), Host: r.Host, Length: length, Header: h}
	if r.Close {
		t.head.Connection = http1.Close
	}
	if t.head.Host == "" {
		t.head.Host = r.URL.Host
	}
	t.head.Host = http1.WithoutZone(t.head.Host)
	if t.head.Method == "CONNECT" && r.URL.Path == "" {
		if t.head.Target = t.head.Host; r.URL.Opaque != "" {
			t.head.Target = r.URL.Opaque
		}
	}
	return nil
}

// encode returns the head for a protocol.
func (t *trip) encode(as version) (head []byte, err error) {
	if as == version2 {
		head, err = t.appendFields(make([]byte, 0, 512))
	} else {
		head, err = http1.AppendRequestHead(make([]byte, 0, 1<<10), &t.head)
	}
	if err != nil {
		return nil, invalidHead(t.head.Method, t.head.Target, t.head.Host, t.head.Header, err)
	}
	return head, nil
}

// readSmall reads a body that is small and in memory, so that it is sent with the head. A body
// with GetBody is in memory.
func (t *trip) readSmall() error {
	length := t.head.Length
	if length <= 0 || length > maxInlineBody || t.req.GetBody == nil || t.mode == uploadAwaitsContinue {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(t.req.Body, length+1))
	if err == nil && int64(len(body)) != length {
		err = wrongLength(length, int64(len(body)))
	}
	t.mode, t.small = uploadWithHead, body
	return err
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
