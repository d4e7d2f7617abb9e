package web_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// attack sends bytes until the server sends a GOAWAY, and returns the code of that. Meanwhile
// the server's answers are read.
func attack(p *peer, next func(i int) []byte) http2.Code {
	p.t.Helper()
	codes := make(chan http2.Code, 1)
	go func() {
		defer p.nc.Close()
		for {
			f, err := p.read()
			if err != nil {
				codes <- noCode
				return
			}
			if f.kind == goAwayFrame {
				codes <- f.code()
				return
			}
		}
	}()
	for i := 0; ; i++ {
		if _, err := p.nc.Write(next(i)); err != nil {
			return <-codes // the connection's deadline limits this
		}
	}
}

// quick answers at once.
var quick = web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))

// calmServer returns a server, and checks at the end that it still answers.
func calmServer(t *testing.T, h http.Handler) *web.Service {
	sv := serve(t, plainHTTP2(&web.Server{Handler: h, ErrorLog: discard()}))
	t.Cleanup(func() {
		if _, body := get(t, clientHTTP2(t), url(sv, "/")); body != "ok" {
			t.Errorf("afterwards, another client gets %q", body)
		}
	})
	return sv
}

func repeated(b []byte) func(int) []byte {
	all := bytes.Repeat(b, 1+4096/len(b))
	return func(int) []byte { return all }
}

// Each of these frames makes work and no progress.
func TestHTTP2Floods(t *testing.T) {
	for name, one := range map[string][]byte{
		"SETTINGS":      appendFrame(nil, settingsFrame, 0, 0, nil),
		"SETTINGS ack":  appendFrame(nil, settingsFrame, ack, 0, nil),
		"PING":          appendFrame(nil, pingFrame, 0, 0, make([]byte, 8)),
		"PRIORITY":      appendFrame(nil, priorityFrame, 0, 1, []byte{0, 0, 0, 3, 1}),
		"WINDOW_UPDATE": appendFrame(appendFrame(nil, windowFrame, 0, 0, number(1)), windowFrame, 0, 1, number(1)),
		"empty DATA":    appendFrame(nil, dataFrame, 0, 1, nil),
		"unknown":       appendFrame(nil, 0xee, 0, 0, nil),
		"RST_STREAM":    appendFrame(nil, resetFrame, 0, 1, number(8)),
	} {
		t.Run(name, func(t *testing.T) {
			sv := calmServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, "ok")
			}))
			p := dialPeer(t, sv)
			p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
			if code := attack(p, repeated(one)); code != http2.EnhanceYourCalm {
				t.Errorf("got %v", code)
			}
		})
	}
}

// TestHTTP2RapidReset begins requests and resets them at once (CVE-2023-44487). The handlers
// that run are bounded, and the connection ends.
func TestHTTP2RapidReset(t *testing.T) {
	var running, most atomic.Int64
	release := make(chan struct{})
	defer close(release)
	s := &web.Server{ErrorLog: discard(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-release
	})}
	sv := serve(t, plainHTTP2(s))
	p := dialPeer(t, sv)
	first := p.request("GET", "/")
	rest := p.request("GET", "/")
	code := attack(p, func(i int) []byte {
		id, block := uint32(2*i+1), rest
		if i == 0 {
			block = first
		}
		b := appendFrame(nil, headersFrame, endStream|endHeaders, id, block)
		return appendFrame(b, resetFrame, 0, id, number(8))
	})
	if code != http2.EnhanceYourCalm {
		t.Errorf("got %v", code)
	}
	if n := most.Load(); n > 251 {
		t.Errorf("%d handlers ran at the same time", n)
	}
}

// TestHTTP2MadeYouReset makes the server reset streams while their handlers run (CVE-2025-8671).
func TestHTTP2MadeYouReset(t *testing.T) {
	for name, mistake := range map[string]func(id uint32) []byte{
		"window of zero": func(id uint32) []byte { return appendFrame(nil, windowFrame, 0, id, number(0)) },
		"window overflow": func(id uint32) []byte {
			return appendFrame(nil, windowFrame, 0, id, number(1<<31-1))
		},
		"priority of a wrong size": func(id uint32) []byte { return appendFrame(nil, priorityFrame, 0, id, []byte{1}) },
		"own dependency": func(id uint32) []byte {
			return appendFrame(nil, priorityFrame, 0, id, append(number(id), 1))
		},
		"data after the end": func(id uint32) []byte { return appendFrame(nil, dataFrame, endStream, id, []byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			var running, most atomic.Int64
			release := make(chan struct{})
			s := &web.Server{ErrorLog: discard(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-release
			})}
			sv := serve(t, plainHTTP2(s))
			defer close(release)
			p := dialPeer(t, sv)
			first := p.request("GET", "/")
			rest := p.request("GET", "/")
			code := attack(p, func(i int) []byte {
				id, block := uint32(2*i+1), rest
				if i == 0 {
					block = first
				}
				return append(appendFrame(nil, headersFrame, endStream|endHeaders, id, block), mistake(id)...)
			})
			if code != http2.EnhanceYourCalm {
				t.Errorf("got %v", code)
			}
			if n := most.Load(); n > 250 {
				t.Errorf("%d handlers ran at the same time", n)
			}
		})
	}
}

// TestHTTP2ContinuationFlood never ends a header block (CVE-2024-27316).
func TestHTTP2ContinuationFlood(t *testing.T) {
	for name, piece := range map[string][]byte{"large": make([]byte, 16<<10), "empty": nil} {
		t.Run(name, func(t *testing.T) {
			sv := calmServer(t, quick)
			p := dialPeer(t, sv)
			p.send(headersFrame, endStream, 1, p.request("GET", "/"))
			one := appendFrame(nil, continuationFrame, 0, 1, piece)
			if code := attack(p, repeated(one)); code != http2.EnhanceYourCalm {
				t.Errorf("got %v", code)
			}
		})
	}
}

// TestHTTP2HPACKBomb refers very often to a large field of the table. The requests are refused,
// and that costs tokens.
func TestHTTP2HPACKBomb(t *testing.T) {
	sv := calmServer(t, quick)
	p := dialPeer(t, sv)
	p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/", "x-large", strings.Repeat("x", 4000)))
	p.response(1)
	const newest = 0x80 | 62
	bomb := func(fields int) []byte {
		return append(p.block(":method", "GET", ":scheme", "http", ":path", "/"), bytes.Repeat([]byte{newest}, fields)...)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.send(headersFrame, endStream|endHeaders, 3, bomb(1000))
	if head, _ := p.response(3); !strings.Contains(head, ":status: 431") {
		t.Fatalf("got %q", head)
	}
	large := bomb(16_000)
	code := attack(p, func(i int) []byte { return appendFrame(nil, headersFrame, endStream|endHeaders, uint32(2*i+5), large) })
	if code != http2.EnhanceYourCalm {
		t.Errorf("got %v", code)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

// TestHTTP2ZeroWindows begins many downloads and allows nothing of them. They end with the
// write time-out.
func TestHTTP2ZeroWindows(t *testing.T) {
	ends := make(chan error, 100)
	s := &web.Server{WriteTimeout: 50e6, ErrorLog: discard(), Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, 1<<20))
		ends <- err
	}))}
	sv := serve(t, plainHTTP2(s))
	p := dialPeer(t, sv, 4, 0)
	for i := range uint32(100) {
		p.send(headersFrame, endStream|endHeaders, 2*i+1, p.request("GET", "/"))
	}
	for range 100 {
		if err := <-ends; err == nil {
			t.Error("a write has succeeded")
		}
	}
}

// TestHTTP2SlowBodies begins many uploads and sends nothing of them.
func TestHTTP2SlowBodies(t *testing.T) {
	ends := make(chan error, 100)
	s := &web.Server{BodyTimeout: 50e6, ErrorLog: discard(), Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ends <- err
	}))}
	sv := serve(t, plainHTTP2(s))
	p := dialPeer(t, sv)
	for i := range uint32(100) {
		p.send(headersFrame, endHeaders, 2*i+1, p.request("POST", "/"))
	}
	for range 100 {
		if err := <-ends; err == nil {
			t.Error("a read has succeeded")
		}
	}
}

// TestHTTP2MistakesEndTheConnection sends what ends a connection, with the code for it.
func TestHTTP2MistakesEndTheConnection(t *testing.T) {
	frames := func(b ...[]byte) []byte { return bytes.Join(b, nil) }
	for _, tt := range []struct {
		name string
		data []byte
		want http2.Code
	}{
		{"window overflow", appendFrame(nil, windowFrame, 0, 0, number(1<<31-1)), http2.FlowControlError},
		{"window of zero", appendFrame(nil, windowFrame, 0, 0, number(0)), http2.ProtocolError},
		{"too large a setting", appendFrame(nil, settingsFrame, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, 1<<31)), http2.FlowControlError},
		{"too large a frame", appendFrame(nil, dataFrame, 0, 1, make([]byte, 16385)), http2.FrameSizeError},
		{"PUSH_PROMISE", appendFrame(nil, 5, endHeaders, 1, number(2)), http2.ProtocolError},
		{"even stream", appendFrame(nil, headersFrame, endStream|endHeaders, 2, nil), http2.ProtocolError},
		{"broken block", appendFrame(nil, headersFrame, endStream|endHeaders, 1, []byte{0xff, 0xff, 0xff}), http2.CompressionError},
		{"interrupted block", frames(appendFrame(nil, headersFrame, 0, 1, nil), appendFrame(nil, pingFrame, 0, 0, make([]byte, 8))), http2.ProtocolError},
		{"data on an idle stream", appendFrame(nil, dataFrame, 0, 1, nil), http2.ProtocolError},
		{"reset of an idle stream", appendFrame(nil, resetFrame, 0, 1, number(0)), http2.ProtocolError},
		{"wrong padding", appendFrame(nil, headersFrame, 8|endHeaders, 1, []byte{9, 0}), http2.ProtocolError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := dialPeer(t, calmServer(t, quick))
			p.nc.Write(tt.data)
			if code := p.ended(); code != tt.want {
				t.Errorf("got %v, want %v", code, tt.want)
			}
		})
	}
}

// TestHTTP2MalformedRequestsAreReset sends headers that no request may have.
func TestHTTP2MalformedRequestsAreReset(t *testing.T) {
	base := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}
	for name, fields := range map[string][]string{
		"no method":             {":scheme", "http", ":path", "/"},
		"no path":               {":method", "GET", ":scheme", "http"},
		"empty path":            {":method", "GET", ":scheme", "http", ":path", ""},
		"path without a slash":  {":method", "GET", ":scheme", "http", ":path", "x"},
		"two methods":           append([]string{":method", "GET"}, base...),
		"unknown pseudo":        append([]string{":x", "y"}, base...),
		"status":                append([]string{":status", "200"}, base...),
		"pseudo after others":   {":method", "GET", "x", "y", ":scheme", "http", ":path", "/"},
		"upper case":            append(base[:8:8], "X-Upper", "1"),
		"empty name":            append(base[:8:8], "", "1"),
		"line break":            append(base[:8:8], "x", "1\r\nHost: evil"),
		"line break in a path":  {":method", "GET", ":scheme", "http", ":path", "/ HTTP/1.1\r\nHost: evil\r\n\r\n"},
		"connection":            append(base[:8:8], "connection", "keep-alive"),
		"upgrade":               append(base[:8:8], "upgrade", "h2c"),
		"transfer-encoding":     append(base[:8:8], "transfer-encoding", "chunked"),
		"te":                    append(base[:8:8], "te", "gzip"),
		"two lengths":           append(base[:8:8], "content-length", "0", "content-length", "1"),
		"a length and no body":  append(base[:8:8], "content-length", "1"),
		"CONNECT with a path":   {":method", "CONNECT", ":authority", "a:1", ":path", "/"},
		"CONNECT with protocol": {":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/", ":authority", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := dialPeer(t, calmServer(t, quick))
			p.send(headersFrame, endStream|endHeaders, 1, p.block(fields...))
			if f := p.until(resetFrame); f.id != 1 || f.code() != http2.ProtocolError {
				t.Errorf("got %v", f)
			}
		})
	}
}
