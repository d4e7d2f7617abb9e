package web_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// TestHostileRequestsAreRefused checks that they get the right status and the connection is
// closed, before any handler sees them.
func TestHostileRequestsAreRefused(t *testing.T) {
	leak.Check(t, 1<<20)
	sv := serve(t, &web.Server{
		MaxHeaderBytes: 4096,
		MaxBodyBytes:   100,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("a handler got %s %s", r.Method, r.RequestURI)
		}),
	})
	for _, tt := range []struct {
		name, request string
		status        int
	}{
		{"Content-Length with Transfer-Encoding", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
		{"negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n", 400},
		{"folded field", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400},
		{"bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400},
		{"bare LF in the header", "GET / HTTP/1.1\r\nHost: a\nX: 1\r\n\r\n", 400},
		{"NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400},
		{"space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
		{"huge header", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n", 431},
		{"too many fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: 1\r\n", 200) + "\r\n", 431},
		{"long request line", "GET /" + strings.Repeat("x", 9000) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
		{"no method", " / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"no version", "GET /\r\nHost: a\r\n\r\n", 400},
		{"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"a later version", "GET / HTTP/1.9\r\nHost: a\r\n\r\n", 505},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"a handshake of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
		{"absolute form of another scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		{"bad Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"another transfer coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"another expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 1\r\n\r\n", 417},
		{"a body that says it is too large", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", 413},
		{"an escape that is none", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc, err := net.Dial("tcp", sv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := io.WriteString(nc, tt.request); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(nc)
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			if res.StatusCode != tt.status || !res.Close {
				t.Errorf("got %d, close %v", res.StatusCode, res.Close)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// TestBadChunksEndTheBody checks that the handler's Read fails and the connection is closed.
func TestBadChunksEndTheBody(t *testing.T) {
	leak.Check(t, 1<<20)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("the body was read")
		}
		w.WriteHeader(400)
	}) {
		s.MaxBodyBytes = 10
		sv := serve(t, s)
		for _, chunks := range []string{"xyz\r\n", "1 \r\na\r\n", "-1\r\n", "ffffffffffffffff1\r\n", "1\r\nab\r\n", "b\r\nabcdefghijk\r\n", "1\r\na\r\n0\r\nContent-Length: 1\r\n\r\n"} {
			t.Run(name, func(t *testing.T) {
				nc, err := net.Dial("tcp", sv.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
				all, err := io.ReadAll(nc)
				if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 400") {
					t.Errorf("%q: got %q, %v", chunks, all, err)
				}
			})
		}
	}
}

// TestAbsoluteFormIsUnderstood checks that the target's host takes precedence over the field.
func TestAbsoluteFormIsUnderstood(t *testing.T) {
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+" "+r.URL.Path)
	})})
	got := raw(t, sv, "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET")
	if got[0] != "200 b /x" {
		t.Errorf("got %q", got)
	}
}
