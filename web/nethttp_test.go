package web_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// handlerCase is a handler that answers alike on net/http and here.
type handlerCase struct {
	name    string
	handler http.HandlerFunc
}

// same are all of them. Each gets every one of the requests.
var same = slices.Concat(plain, framing, headers, using)

// plain are handlers that leave framing to the server.
var plain = []handlerCase{
	{"nothing", func(http.ResponseWriter, *http.Request) {}},
	{"text", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }},
	{"html", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html><body>hello") }},
	{"typed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	}},
	{"type suppressed", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "hello")
	}},
	{"encoded", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		gz := gzip.NewWriter(w)
		io.WriteString(gz, "hello")
		gz.Close()
	}},
	{"status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }},
	{"unknown status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(799) }},
	{"no content", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	{"not modified", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"x"`)
		w.WriteHeader(http.StatusNotModified)
	}},
	{"error", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", 500) }},
	{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) }},
	{"several fields", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("X-Empty", "")
	}},
	{"own date", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Date", "today") }},
	{"declared", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "hello")
	}},
	{"declared, flushed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.(http.Flusher).Flush()
		io.WriteString(w, "hello")
	}},
	{"flushed", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hel")
		w.(http.Flusher).Flush()
		io.WriteString(w, "lo")
	}},
	{"flushed before anything", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "hello")
	}},
	{"large", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 100_000))
	}},
	{"header after the body", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		w.WriteHeader(200)
		h.Set("X-Late", "1")
		io.WriteString(w, "hello")
	}},
	{"closes", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "hello")
	}},
	{"echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }},
	{"request", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.ContentLength, r.TransferEncoding, r.Close, r.TLS)
		u := *r.URL
		fmt.Fprintf(w, "%#v %v %v\n", u, r.Body == http.NoBody, r.Trailer)
		for _, key := range slices.Sorted(maps.Keys(r.Header)) {
			fmt.Fprintln(w, key, r.Header[key])
		}
		if err := r.ParseForm(); err != nil {
			fmt.Fprintln(w, err)
		}
		fmt.Fprintln(w, r.Form)
	}},
	{"content", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Unix(1e9, 0), strings.NewReader(strings.Repeat("0123456789", 1000)))
	}},
	{"trailer", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-T")
		w.Header().Set("X-T", "0")
		io.WriteString(w, "hello")
		w.Header().Set("X-T", "1")
	}},
	{"reads nothing", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "no thanks") }},
}

var requests = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"GET /a%20b/c%2Fd;x?q=1&r=%zz&q=2 HTTP/1.1\r\nhost: a:80\r\nx-y: 1\r\nX-Y: 2\r\nCookie: a=b\r\n\r\n",
	"GET /? HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n",
	"GET //x//y/../z HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://b.example/p?q HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\nq=1&r=2",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n3\r\nq=1\r\n0\r\nX-A: 1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=5-10\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n\r\n",
	"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
}

// answer is what a server at address says to a request, and whether it then goes on.
func answer(t testing.TB, address, request string) string {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute)) // only a failure takes so long
	const next = "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	io.WriteString(nc, request+next)
	br := bufio.NewReader(nc)
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(res.Body)
	res.Header.Del("Date")
	said := fmt.Sprintf("%s %d %d %v %v %v %q %v", res.Proto, res.StatusCode, res.ContentLength, res.TransferEncoding, res.Header, res.Trailer, body, err)
	_, err = br.Peek(1)
	return fmt.Sprintf("%s, goes on: %v", said, err == nil)
}

// TestSameAsNetHTTP holds every kind of handler to what net/http's server makes of it.
func TestSameAsNetHTTP(t *testing.T) {
	t.Parallel()
	var at atomic.Int64
	h := func(w http.ResponseWriter, r *http.Request) { same[at.Load()].handler(w, r) }
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(h))
	theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
	theirs.Start()
	defer theirs.Close()
	host := strings.TrimPrefix(theirs.URL, "http://")
	ours := map[string]string{}
	for name, s := range kinds(h) {
		if name == "mux" || name == "middleware" { // a mux redirects and cleans paths
			continue
		}
		s.ErrorLog = slog.New(slog.DiscardHandler)
		ours[name] = serve(t, s).Addr().String()
	}
	for i, tt := range same {
		if testing.Short() && i%3 > 0 {
			continue
		}
		at.Store(int64(i))
		for _, request := range requests {
			if tt.name == "trailer" && strings.Contains(request, "HTTP/1.0") {
				continue // net/http does not tell the length; we do, as there can be no trailer
			}
			if tt.name == "chunks wanted, declared" && strings.Contains(request, "HTTP/1.0") {
				continue // net/http promises keep-alive, and closes
			}
			want := answer(t, host, request)
			for name, address := range ours {
				if got := answer(t, address, request); got != want {
					t.Errorf("%s, %s, %q:\n got %s\nwant %s", tt.name, name, request, got, want)
				}
			}
		}
	}
}
