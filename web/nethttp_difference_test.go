package web_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const (
	getRoot  = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	postRoot = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
)

// differences are where this server does something else than net/http's on purpose;
// docs/design/016 says why. Answers are as brief makes them. Both are checked, so that
// a difference that has gone is noticed.
var differences = []struct {
	name         string
	handler      http.HandlerFunc
	request      string
	ours, theirs string
}{
	{"invalid Content-Length of a handler", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "-1")
		io.WriteString(w, "hello")
	}, getRoot, "200 hello, length 5, goes on", "200 hello, chunked, goes on"},
	{"write beyond the declared length", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "hello")
		io.WriteString(w, "more")
	}, getRoot, "200 hello, length 5, goes on", "200 hello, length 5, closes"},
	{"body of 4 KB", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 4096)) },
		getRoot, "200 xxxxxxxxxx, length 4096, goes on", "200 xxxxxxxxxx, chunked, goes on"},
	{"close in a list", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close, x") },
		getRoot, "200 , length 0, closes", "200 , length 0, goes on"},
	{"interim response to HTTP/1.0", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusEarlyHints) },
		"GET / HTTP/1.0\r\n\r\n", "200 , length 0, closes", "103 , length 0, goes on"},
	{"body over the limit of http.MaxBytesReader", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 2))
	}, postRoot, "200 , length 0, goes on", "200 , length 0, closes"},
	{"full duplex with an unread body", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.(http.Flusher).Flush()
	}, postRoot, "200 , chunked, goes on", "200 , chunked, closes"},
	{"line break in a header", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-A", "1\r\nX-B: 2") },
		getRoot, "500 , length 0, closes", "200 , length 0, goes on"},
	{"asterisk without OPTIONS", nil, "FOO * HTTP/1.1\r\nHost: a\r\n\r\n",
		"400 400 Bad Request: http1: malformed request target, length 48, closes", "200 , length 0, goes on"},
	{"CONNECT without Host", nil, "CONNECT a:443 HTTP/1.1\r\n\r\n",
		"400 400 Bad Request: http1: no Host field, length 37, closes", "200 , length 0, goes on"},
	{"CONNECT to a path", nil, "CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
		"400 400 Bad Request: http1: malformed request target, length 48, closes", "200 , length 0, goes on"},
	{"IPv6 host without brackets", nil, "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n",
		"400 400 Bad Request: http1: malformed Host field, length 44, closes", "200 , length 0, goes on"},
	{"empty line before a request", nil, postRoot + "\r\n\r\n",
		"200 , length 0, closes", "200 , length 0, goes on"},
	{"HTTP/2 preface", nil, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"505 505 HTTP Version Not Supported: http1: HTTP/2 connection preface, length 64, closes", "200 , length 0, closes"},
	{"quoted transfer coding", nil, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"x\"\r\n\r\n",
		"400 400 Bad Request: http1: malformed Transfer-Encoding, or chunked is not its last coding, length 86, closes",
		"501 Unsupported transfer encoding, length -1, closes"},
}

// brief is what a server answers to a request, in short.
func brief(t testing.TB, address, request string) string {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute)) // only a failure takes so long
	io.WriteString(nc, request+"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	br := bufio.NewReader(nc)
	status, err := br.Peek(12)
	if err != nil {
		return err.Error()
	}
	interim := status[9] == '1'
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	length := fmt.Sprint("length ", res.ContentLength)
	if len(res.TransferEncoding) > 0 {
		length = "chunked"
	}
	if len(body) > 100 {
		body = body[:10]
	}
	fate := "closes"
	if next, err := br.Peek(12); err == nil && (interim || string(next[9:12]) == "200") {
		fate = "goes on"
	}
	return fmt.Sprintf("%d %s, %s, %s", res.StatusCode, body, length, fate)
}

// TestDeliberateDifferencesFromNetHTTP checks both sides of each.
func TestDeliberateDifferencesFromNetHTTP(t *testing.T) {
	t.Parallel()
	for i, d := range differences {
		if testing.Short() && i%3 > 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			h := func(w http.ResponseWriter, r *http.Request) {
				if d.handler != nil && r.URL.Path != "/next" {
					d.handler(w, r)
				}
			}
			theirs := httptest.NewUnstartedServer(http.HandlerFunc(h))
			theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
			theirs.Start()
			defer theirs.Close()
			if got := brief(t, strings.TrimPrefix(theirs.URL, "http://"), d.request); got != d.theirs {
				t.Errorf("net/http: got %q, want %q", got, d.theirs)
			}
			for name, s := range kinds(h) {
				if name == "mux" || name == "middleware" {
					continue
				}
				s.ErrorLog = slog.New(slog.DiscardHandler)
				if got := brief(t, serve(t, s).Addr().String(), d.request); got != d.ours {
					t.Errorf("%s: got %q, want %q", name, got, d.ours)
				}
			}
		})
	}
}
