package web_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// proxied copies the response of a backend like ReverseProxy.
func proxied(backend *neturl.URL, path string) http.HandlerFunc {
	p := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(backend)
		r.Out.URL.Path = path
	}}
	return p.ServeHTTP
}

// abortions are handlers that fail after some of their response was sent.
func abortions(backend *neturl.URL) map[string]http.HandlerFunc {
	begin := func(w http.ResponseWriter) {
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		io.WriteString(w, "not sent")
	}
	return map[string]http.HandlerFunc{
		"chunked":      func(w http.ResponseWriter, r *http.Request) { begin(w); panic(http.ErrAbortHandler) },
		"other panic":  func(w http.ResponseWriter, r *http.Request) { begin(w); panic("oh no") },
		"in a request": func(w http.ResponseWriter, r *http.Request) { begin(w); panic(errors.New("some error")) },
		"Content-Length": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			begin(w)
			panic(http.ErrAbortHandler)
		},
		"complete but for the end": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "12")
			begin(w)
			panic(http.ErrAbortHandler)
		},
		"trailers": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-T")
			w.Header().Set("X-T", "1")
			begin(w)
			panic(http.ErrAbortHandler)
		},
		"proxied chunked":        proxied(backend, "/chunked"),
		"proxied Content-Length": proxied(backend, "/length"),
	}
}

// dying is a backend that sends some of a response and closes the connection.
func dying(t *testing.T) *neturl.URL {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "100")
		}
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	u, err := neturl.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func abortedResponse(t *testing.T, s *web.Server, trust *tls.Config) {
	sv := serve(t, s)
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if trust != nil {
		trust = trust.Clone()
		trust.ServerName = "example.com"
		nc = tls.Client(nc, trust)
	}
	defer nc.Close()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	all, _ := io.ReadAll(nc)
	if !bytes.Contains(all, []byte("\r\n\r\n")) || !bytes.Contains(all, []byte("some")) || bytes.HasSuffix(all, []byte("0\r\n\r\n")) {
		t.Errorf("got %q", all)
	}
	if bytes.Contains(all, []byte("not sent")) {
		t.Errorf("what was not flushed is sent: %q", all)
	}
}

// TestAbortedResponseIsNeverComplete checks that a client notices an incomplete response, with
// every kind of handler, plain and with TLS.
func TestAbortedResponseIsNeverComplete(t *testing.T) {
	leak.Check(t, 2<<20)
	server, trust := certified(t)
	for what, h := range abortions(dying(t)) {
		for name, s := range kinds(h) {
			if bytes.HasPrefix([]byte(what), []byte("proxied")) && name != "worker" {
				continue // ReverseProxy's transport blocks
			}
			s.ErrorLog = quiet
			t.Run(what+"/"+name, func(t *testing.T) { abortedResponse(t, s, nil) })
			s.TLS = server
			t.Run(what+"/"+name+"/TLS", func(t *testing.T) { abortedResponse(t, s, trust) })
		}
	}
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// logged is a log that a test can read while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// TestPanicsEndTheConnection checks that panics affect no other connection, and that they are
// logged unless the handler aborts on purpose.
func TestPanicsEndTheConnection(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "some")
		switch r.URL.Path {
		case "/behind":
			t.Error("a request behind a panic was served")
		case "/panic":
			panic("oh no")
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/exit":
			runtime.Goexit()
		case "/flushed":
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}) {
		var log logged
		s.ErrorLog = slog.New(slog.NewTextHandler(&log, nil))
		s.Lean = func(c *web.LeanCtx) bool {
			if string(c.Path()) == "/lean" {
				panic("oh lean")
			}
			return false
		}
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for path, says := range map[string]string{"/panic": "oh no", "/abort": "", "/exit": "Goexit", "/flushed": "", "/lean": "oh lean"} {
				before := len(log.String())
				nc, _ := dial(t, sv)
				io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\nGET /behind HTTP/1.1\r\nHost: a\r\n\r\n")
				all, _ := io.ReadAll(nc)
				if path == "/flushed" {
					if !bytes.Contains(all, []byte("some")) || bytes.HasSuffix(all, []byte("0\r\n\r\n")) {
						t.Errorf("%s: got %q", path, all)
					}
				} else if len(all) > 0 {
					t.Errorf("%s: got %q", path, all)
				}
				said := log.String()[before:]
				if says == "" && said != "" || !strings.Contains(said, says) {
					t.Errorf("%s: logged %q", path, said)
				}
			}
			if _, body := get(t, client(t), url(sv, "/")); body != "some" {
				t.Errorf("afterwards: %q", body)
			}
		})
	}
}

// TestPanicDoesNotCutEarlierResponses checks that a response that is complete arrives as a
// whole, although the handler of the request behind it panics and leaves its body unread.
func TestPanicDoesNotCutEarlierResponses(t *testing.T) {
	large := strings.Repeat("x", 2<<20)
	server, trust := certified(t)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("oh no")
		case "/flushed":
			w.(http.Flusher).Flush()
			panic("oh no")
		case "/late":
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second))
		}
		io.WriteString(w, large)
	}) {
		s.ErrorLog = quiet
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){
			"/lean":       func(c *web.LeanCtx) { c.WriteString(large) },
			"/lean/panic": func(*web.LeanCtx) { panic("oh lean") },
			"/lean/body": func(c *web.LeanCtx) {
				c.ReadBody(1<<20, func(*web.LeanCtx, []byte) { panic("oh lean") })
			},
		})
		for _, secured := range []bool{false, true} {
			if s.TLS = nil; secured {
				s.TLS = server
			}
			for _, path := range []string{"/panic", "/flushed", "/late", "/lean/panic", "/lean/body"} {
				t.Run(fmt.Sprintf("%s%s, TLS %v", name, path, secured), func(t *testing.T) {
					sv := serve(t, s)
					for _, first := range []string{"/", "/lean"} {
						nc := connect(t, sv.Addr())
						if secured {
							nc = tls.Client(nc, &tls.Config{RootCAs: trust.RootCAs, ServerName: "example.com"})
						}
						sent := make(chan bool)
						go func() {
							defer close(sent)
							fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: a\r\n\r\nPOST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n%010000d", first, path, 0)
						}()
						res, err := http.ReadResponse(bufio.NewReader(nc), nil)
						if err != nil {
							t.Fatal(err)
						}
						if body, err := io.ReadAll(res.Body); err != nil || len(body) != len(large) {
							t.Errorf("%s: got %d bytes, %v", first, len(body), err)
						}
						<-sent
						nc.Close()
					}
				})
			}
		}
	}
}
