package web_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/web"
)

func TestClientAsksToClose(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("ok") }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/lean"} {
				nc, _ := dial(t, sv)
				io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
				all, err := io.ReadAll(nc)
				if err != nil || !strings.HasSuffix(string(all), "ok") || strings.Count(string(all), "HTTP/1.1 200") != 1 ||
					!strings.Contains(string(all), "Connection: close\r\n") {
					t.Errorf("got %q, %v", all, err)
				}
			}
		})
	}
}

// TestRequestsAfterTheLastResponse covers a client that does not know yet that the server
// ends the connection. What it still sends must not reset the connection under the response.
func TestRequestsAfterTheLastResponse(t *testing.T) {
	web.Linger(t, time.Minute)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") }) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, request := range []string{
				"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
				"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
			} {
				nc, br := dial(t, sv)
				io.WriteString(nc, request)
				if _, err := br.Peek(1); err != nil {
					t.Fatal(err)
				}
				for range 10 {
					if _, err := io.WriteString(nc, request); err != nil {
						t.Fatalf("after the response: %v", err)
					}
				}
				response(t, br, "GET")
				if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
					t.Error(err)
				}
				if rest, err := io.ReadAll(br); len(rest) > 0 || err != nil {
					t.Errorf("after the response: %q, %v", rest, err)
				}
			}
		})
	}
}

func TestOldClientsKeepAliveIfTheyAsk(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("lean") }})
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			for _, path := range []string{"/", "/lean", "/"} {
				io.WriteString(nc, "GET "+path+" HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
				if res, body := response(t, br, "GET"); res.Header.Get("Connection") != "keep-alive" || res.ContentLength != int64(len(body)) {
					t.Errorf("got %v %q", res.Header, body)
				}
			}
			io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n")
			if res, body := response(t, br, "GET"); body != "HTTP/1.0" || !res.Close {
				t.Errorf("got %v %q", res.Header, body)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

func TestConnectionTakesSoManyRequests(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {}) {
		s.MaxRequestsPerConn = 3
		s.Lean = func(c *web.LeanCtx) bool { return name == "worker" && string(c.Path()) == "/lean" }
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/lean"} {
				nc, br := dial(t, sv)
				io.WriteString(nc, strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n", 4))
				for i := range 3 {
					if res, _ := response(t, br, "GET"); res.Close != (i == 2) {
						t.Errorf("%s %d: close %v", path, i, res.Close)
					}
				}
				if _, err := br.ReadByte(); err != io.EOF {
					t.Errorf("a fourth: %v", err)
				}
			}
		})
	}
}

func TestDisabledKeepAlivesCloseEveryConnection(t *testing.T) {
	lean := func(c *web.LeanCtx) bool { c.WriteString("hello"); return true }
	for name, s := range map[string]*web.Server{
		"worker": {Handler: text("hello")},
		"inline": {Handler: web.Inline(text("hello"))},
		"lean":   {Lean: lean},
	} {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			idle := connect(t, sv.Addr())
			if res, _ := exchangeOn(t, idle); res.Close {
				t.Error("closed before keep-alives were disabled")
			}
			s.SetKeepAlivesEnabled(false)
			isClosed(t, idle)
			nc := connect(t, sv.Addr())
			if res, body := exchangeOn(t, nc); !res.Close || body != "hello" {
				t.Errorf("close %v, body %q", res.Close, body)
			}
			isClosed(t, nc)
			s.SetKeepAlivesEnabled(true)
			nc = connect(t, sv.Addr())
			for range 2 {
				if res, _ := exchangeOn(t, nc); res.Close {
					t.Error("closed after keep-alives were enabled")
				}
			}
		})
	}
}

// TestKeepAlivesDisabledDuringAResponse closes a connection after a response that has
// promised to keep it.
func TestKeepAlivesDisabledDuringAResponse(t *testing.T) {
	sent, release := make(chan struct{}), make(chan struct{})
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		close(sent)
		<-release
	})}
	sv := serve(t, s)
	nc := connect(t, sv.Addr())
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-sent
	s.SetKeepAlivesEnabled(false)
	close(release)
	if _, err := io.ReadAll(nc); err != nil {
		t.Error(err)
	}
}

func TestKeepAlivesOffAndOnSpareActiveConnections(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", text("hello"))
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
	})
	s := &web.Server{Handler: mux}
	s.Lean = func(c *web.LeanCtx) bool {
		if string(c.Path()) != "/renew" {
			return false
		}
		s.SetKeepAlivesEnabled(false) // on the loop, so that both calls come before their effects
		s.SetKeepAlivesEnabled(true)
		return true
	}
	sv := serve(t, s)
	idle := []net.Conn{connect(t, sv.Addr()), connect(t, sv.Addr())}
	for _, nc := range idle {
		exchangeOn(t, nc)
	}
	slow := connect(t, sv.Addr())
	io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	io.WriteString(connect(t, sv.Addr()), "GET /renew HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, nc := range idle {
		isClosed(t, nc)
	}
	close(release)
	io.WriteString(slow, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if answers, err := io.ReadAll(slow); err != nil || len(answers) < 200 {
		t.Errorf("%q, %v", answers, err)
	}
}
