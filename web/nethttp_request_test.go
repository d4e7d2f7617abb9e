package web_test

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// edges are requests at the edge of what a server takes. Both servers answer them with
// the same status and then both go on, or both close.
var edges = []struct{ name, request string }{
	{"no host", "GET / HTTP/1.1\r\n\r\n"},
	{"no host in 1.0", "GET / HTTP/1.0\r\n\r\n"},
	{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
	{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
	{"two hosts in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"},
	{"host with a control character", "GET / HTTP/1.1\r\nHost: \x06\r\n\r\n"},
	{"host with a brace", "GET / HTTP/1.1\r\nHost: {\r\n\r\n"},
	{"host and port", "GET / HTTP/1.1\r\nHost: a:80\r\n\r\n"},
	{"IPv6 host", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"},
	{"HTTP/1.2 and above", "GET / HTTP/3.0\r\nHost: a\r\n\r\n"},
	{"no version", "GET /\r\n\r\n"},
	{"malformed version", "GET / HTTP/x\r\nHost: a\r\n\r\n"},
	{"method with a space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"method with a control character", "G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"target without a slash", "GET x HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"target with a bad escape", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"name with a space", "GET / HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n"},
	{"space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n"},
	{"no name", "GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n"},
	{"no colon", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"},
	{"name that is no token", "GET / HTTP/1.1\r\nHost: a\r\n\"X\": 1\r\n\r\n"},
	{"value with a control character", "GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"},
	{"value with a tab", "GET / HTTP/1.1\r\nHost: a\r\nX: a\tb\r\n\r\n"},
	{"value beyond ASCII", "GET / HTTP/1.1\r\nHost: a\r\nX: \xff\r\n\r\n"},
	{"empty value", "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n"},
	{"empty Expect", "POST / HTTP/1.1\r\nHost: a\r\nExpect:\r\nContent-Length: 5\r\n\r\nhello"},
	{"unknown Expect", "POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 5\r\n\r\nhello"},
	{"Expect in 1.0", "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"},
	{"Expect without a body", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"},
	{"unknown transfer coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: fugazi\r\n\r\n"},
	{"another unknown transfer coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{"negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"},
	{"length that is no number", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"},
	{"length with a sign", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello"},
	{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"},
	{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
	{"keep-alive in 1.0", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"},
	{"close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n"},
	{"close among others", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n"},
	{"body of a GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"},
	{"body of a DELETE", "DELETE / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"},
	{"huge header", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n"},
	{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"},
	{"absolute target", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"OPTIONS of the server", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
}

// TestRequestsAtTheEdgeAreTakenAsByNetHTTP compares status and the connection's fate.
func TestRequestsAtTheEdgeAreTakenAsByNetHTTP(t *testing.T) {
	t.Parallel()
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/next" {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %q %q %v", r.Method, r.Host, body, err)
		}
	}
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(h))
	theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
	theirs.Start()
	defer theirs.Close()
	ours := map[string]string{}
	for name, s := range kinds(h) {
		if name == "mux" || name == "middleware" {
			continue
		}
		s.ErrorLog = slog.New(slog.DiscardHandler)
		ours[name] = serve(t, s).Addr().String()
	}
	for i, e := range edges {
		if testing.Short() && i%3 > 0 {
			continue
		}
		want := outline(brief(t, strings.TrimPrefix(theirs.URL, "http://"), e.request))
		for name, address := range ours {
			if got := outline(brief(t, address, e.request)); got != want {
				t.Errorf("%s, %s: got %q, want %q", e.name, name, got, want)
			}
		}
	}
}

// outline leaves status and fate of what brief returns, unless it is a success: the text
// of an error may differ.
func outline(s string) string {
	if s[0] == '2' {
		return s
	}
	status, _, _ := strings.Cut(s, " ")
	return status + s[strings.LastIndex(s, ",")+1:]
}
