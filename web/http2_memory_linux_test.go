package web_test

import (
	"bytes"
	"net/http"
	"runtime"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/web"
)

// opening returns what a client sends first, with a request like that of a common client, and
// the same request again.
func opening() (first, again []byte) {
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	request := func(id uint32) []byte {
		buf.Reset()
		for _, f := range [][2]string{
			{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "localhost:8080"},
			{"user-agent", "Mozilla/5.0 (X11; Linux x86_64)"}, {"accept", "*/*"}, {"accept-encoding", "gzip, deflate, br"},
		} {
			enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		return appendFrame(nil, headersFrame, endStream|endHeaders, id, buf.Bytes())
	}
	first = appendFrame([]byte(http2.Preface), settingsFrame, 0, 0, nil)
	first = append(first, request(1)...)
	return first, request(3)
}

// TestIdleHTTP2ConnectionIsSmall measures a connection after a request of each kind, and
// checks that it has no goroutine.
func TestIdleHTTP2ConnectionIsSmall(t *testing.T) {
	const most = 1200 // a third of it is the decoder's table, with four fields
	conns := short.Of(1000)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) })
	first, _ := opening()
	for name, s := range map[string]*web.Server{
		"lean":   {Lean: func(c *web.LeanCtx) bool { lean(c); return true }},
		"inline": {Handler: web.Inline(h)},
		"worker": {Handler: h},
	} {
		t.Run(name, func(t *testing.T) {
			l, sv := steps(t, plainHTTP2(s))
			buf := make([]byte, 4<<10)
			grow := func() {
				for _, fd := range sockets(t, sv, conns) {
					ask(t, l, fd, first, buf, 100)
				}
			}
			grow() // pools and tables
			before, goroutines := heapInUse(), runtime.NumGoroutine()
			grow()
			if n := runtime.NumGoroutine() - goroutines; n > 1 {
				t.Errorf("%d goroutines for %d connections", n, conns)
			}
			if each := (heapInUse() - before) / int64(conns); each > most {
				t.Errorf("%d bytes for each", each)
			} else {
				t.Logf("%d bytes for each", each)
			}
		})
	}
}

// TestLeanHTTP2RequestsDoNotAllocate covers many requests on a connection.
func TestLeanHTTP2RequestsDoNotAllocate(t *testing.T) {
	l, sv := steps(t, plainHTTP2(&web.Server{Lean: func(c *web.LeanCtx) bool { lean(c); return true }}))
	fd := sockets(t, sv, 1)[0]
	buf := make([]byte, 4<<10)
	first, again := opening()
	ask(t, l, fd, first, buf, 100)
	id := uint32(3)
	one := func() {
		again[5], again[6], again[7], again[8] = byte(id>>24), byte(id>>16), byte(id>>8), byte(id)
		id += 2
		ask(t, l, fd, again, buf, 50)
	}
	for range 100 {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n > 0 {
		t.Errorf("%v allocations for each request", n)
	}
}
