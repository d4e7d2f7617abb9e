//go:build spindle_python

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/loop"
)

// accessLog writes a line for each request, for a WebSocket one for its handshake. Lines are put
// together on the loop and written by a worker, because the output may block. A nil log does
// nothing.
type accessLog struct {
	l       *loop.Loop
	to      io.Writer
	format  string
	proxies *proxies

	lines []byte // to be written
	lost  int    // lines beyond logLimit
	batch *batch // that a worker writes; nil if there is none
}

// batch is lines that are written once: by a worker, or at the end if none has begun to.
type batch struct {
	lines []byte
	once  sync.Once
}

func (b *batch) write(to io.Writer) {
	b.once.Do(func() { _, _ = to.Write(b.lines) })
}

// logLimit is how many bytes wait at most for an output that is too slow.
const logLimit = 1 << 20

// logged is what the log needs of a request.
type logged struct {
	remote, method, target, proto, referer, agent string

	at    time.Time
	since time.Duration // of the loop's clock
}

func (a *accessLog) begin(remote string, p *http1.RequestParser) *logged {
	if a == nil {
		return nil
	}
	var forwarded []string
	if a.proxies != nil && p.Get("X-Forwarded-For") != nil {
		for i := range p.FieldCount() {
			if name, value := p.Field(i); strings.EqualFold(string(name), "X-Forwarded-For") {
				forwarded = append(forwarded, string(value))
			}
		}
	}
	e := a.entry(remote, forwarded, string(p.Method()), string(p.Target()), p.Version().String())
	if a.format != "common" {
		e.referer, e.agent = string(p.Get("Referer")), string(p.Get("User-Agent"))
	}
	return e
}

// beginStream is begin for a request on a stream of HTTP/2.
func (a *accessLog) beginStream(remote string, hd *http2.Header) *logged {
	var forwarded []string
	for i := range hd.Fields {
		if a.proxies != nil && hd.Fields[i].Name == "x-forwarded-for" {
			forwarded = append(forwarded, hd.Fields[i].Value)
		}
	}
	e := a.entry(remote, forwarded, hd.Method, hd.Path, protoHTTP2)
	if a.format != "common" {
		e.referer, _ = hd.Get("referer")
		e.agent, _ = hd.Get("user-agent")
	}
	return e
}

// protoHTTP2 is the protocol in the log. HTTP/2 has no minor version.
const protoHTTP2 = "HTTP/2"

// beginRequest is begin for a request that the app does not get as one by HTTP: the handshake of a
// WebSocket, or a request for a file. Any goroutine may call it.
func (a *accessLog) beginRequest(remote string, req *http.Request) *logged {
	if a == nil {
		return nil
	}
	proto := req.Proto
	if req.ProtoMajor == 2 {
		proto = protoHTTP2
	}
	e := a.entry(remote, req.Header["X-Forwarded-For"], req.Method, req.RequestURI, proto)
	if a.format != "common" {
		e.referer, e.agent = req.Referer(), req.UserAgent()
	}
	return e
}

func (a *accessLog) entry(remote string, forwarded []string, method, target, proto string) *logged {
	host, _ := splitRemote(remote)
	host = a.proxies.client(host, forwarded)
	return &logged{remote: host, method: method, target: target, proto: proto, at: a.l.Internal().Kernel().Wall(), since: a.l.Time()}
}

// end logs a request. Status 0 means that its response was not completed.
func (a *accessLog) end(e *logged, status int, bytes int64) {
	if a == nil || e == nil {
		return
	}
	if len(a.lines) > logLimit {
		a.lost++
		return
	}
	if a.format == "json" {
		a.lines = appendJSON(a.lines, e, status, bytes, a.l.Time()-e.since)
	} else {
		a.lines = appendCommon(a.lines, e, status, bytes)
		if a.format == "combined" {
			a.lines = append(appendQuoted(append(a.lines, ' '), e.referer), ' ')
			a.lines = appendQuoted(a.lines, e.agent)
		}
	}
	a.lines = append(a.lines, '\n')
	a.write()
}

func (a *accessLog) write() {
	if a.batch != nil || len(a.lines) == 0 {
		return
	}
	b := &batch{lines: a.waiting()}
	_, err := loop.Offload(a.l, func() (int, error) { b.write(a.to); return 0, nil }, func(_ int, err error) {
		if err == nil { // otherwise the loop closes, and flush writes it
			a.batch = nil
			a.write()
		}
	})
	if err == nil {
		a.batch, a.lines, a.lost = b, nil, 0
	}
}

// flush writes what is left, when the loop has ended.
func (a *accessLog) flush() {
	if a == nil {
		return
	}
	if a.batch != nil {
		a.batch.write(a.to)
		a.batch = nil
	}
	if len(a.lines) > 0 {
		_, _ = a.to.Write(a.waiting())
		a.lines, a.lost = nil, 0
	}
}

// waiting returns the lines to be written, and a last one that says how many are lost.
func (a *accessLog) waiting() []byte {
	if a.lost == 0 {
		return a.lines
	}
	const tooSlow = "spindle: the access log is too slow"
	if a.format != "json" {
		return fmt.Appendf(a.lines, "%s; lost %d lines\n", tooSlow, a.lost)
	}
	line, _ := json.Marshal(struct {
		Time  string `json:"time"`
		Error string `json:"error"`
		Lost  int    `json:"lost_lines"`
	}{a.l.Internal().Kernel().Wall().Format(time.RFC3339Nano), tooSlow, a.lost})
	return append(append(a.lines, line...), '\n')
}

func appendCommon(b []byte, e *logged, status int, bytes int64) []byte {
	b = appendAddress(b, e.remote)
	b = append(b, " - - ["...)
	b = e.at.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, "] "...)
	b = appendQuoted(b, strings.TrimSpace(e.method+" "+e.target+" "+e.proto))
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	return strconv.AppendInt(b, bytes, 10)
}

// appendAddress appends the client's address. A proxy may have passed on what a client has sent, so
// characters that end the column or the line are replaced.
func appendAddress(b []byte, address string) []byte {
	if address == "" {
		return append(b, '-')
	}
	for _, c := range []byte(address) {
		if c <= ' ' || c >= 0x7f || c == '"' {
			c = '?'
		}
		b = append(b, c)
	}
	return b
}

// appendQuoted quotes what clients have sent, so that no line can be forged.
func appendQuoted(b []byte, s string) []byte {
	if s == "" {
		return append(b, `"-"`...)
	}
	return strconv.AppendQuoteToASCII(b, s)
}

func appendJSON(b []byte, e *logged, status int, bytes int64, took time.Duration) []byte {
	line, _ := json.Marshal(struct {
		Time    string  `json:"time"`
		Remote  string  `json:"remote"`
		Method  string  `json:"method"`
		Target  string  `json:"target"`
		Proto   string  `json:"proto"`
		Status  int     `json:"status"`
		Bytes   int64   `json:"bytes"`
		TookMS  float64 `json:"took_ms"`
		Referer string  `json:"referer,omitempty"`
		Agent   string  `json:"user_agent,omitempty"`
	}{e.at.Format(time.RFC3339Nano), e.remote, e.method, e.target, e.proto, status, bytes,
		float64(took.Microseconds()) / 1000, e.referer, e.agent})
	return append(b, line...)
}
