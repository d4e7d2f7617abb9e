package web_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/web"
)

func TestRefusedIsCalledForRequestsWithoutAHandler(t *testing.T) {
	got := make(chan string, 1)
	sv := serve(t, &web.Server{
		HeaderTimeout: 20 * time.Millisecond, MaxRequestLineBytes: 100, MaxHeaderFields: 5, MaxBodyBytes: 10,
		Refused: func(r web.Refusal) {
			got <- fmt.Sprintf("%d %q %q %v", r.Status, r.Method, r.Target, r.Conn.RemoteAddr() != nil)
		},
		Lean: func(lc *web.LeanCtx) bool {
			lean := string(lc.Path()) == "/lean"
			if lean {
				lc.ReadBody(1, func(*web.LeanCtx, []byte) {})
			}
			return lean
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }),
	})
	for _, tt := range []struct{ request, want string }{
		{"GET /" + strings.Repeat("x", 200), `414 "GET" "" true`},
		{"GET /a HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 6), `431 "GET" "/a" true`},
		{"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", `413 "POST" "/a" true`},
		{"GET /a HTTP/1.1\r\n\r\n", `400 "GET" "/a" true`},
		{"\x00\r\n\r\n", `400 "" "" true`},
		{"GET /late HTTP/1.1\r\nHo", `408 "GET" "/late" true`},
		{"GET /la", `408 "GET" "" true`},
	} {
		nc, _ := dial(t, sv)
		io.WriteString(nc, tt.request)
		if got := <-got; got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.request[:7], got, tt.want)
		}
	}
	nc, _ := dial(t, sv)
	io.WriteString(nc, "GET /cut HTTP/1.1\r\nX: y\r\n")
	nc.(interface{ CloseWrite() error }).CloseWrite()
	if got := <-got; got != `400 "GET" "/cut" true` {
		t.Errorf("got %s", got)
	}
	// A handler has seen these.
	for _, request := range []string{
		"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n",
		"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
		"POST /lean HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	} {
		nc, br := dial(t, sv)
		io.WriteString(nc, request)
		io.ReadAll(br)
	}
	if len(got) > 0 {
		t.Errorf("got %s", <-got)
	}
}

// TestNoDate asks for responses of a handler, of a lean handler, and to a request that is refused.
func TestNoDate(t *testing.T) {
	for _, none := range []bool{false, true} {
		sv := serve(t, plainHTTP2(&web.Server{
			NoDate: none, MaxBodyBytes: 10,
			Lean: func(lc *web.LeanCtx) bool {
				return string(lc.Path()) == "/lean"
			},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/own" {
					w.Header().Set("Date", "today")
				}
			}),
		}))
		for protocol, client := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient, "HTTP/2": clientHTTP2(t)} {
			for path, status := range map[string]int{"/": 200, "/lean": 200, "/own": 200, "/long": 413} {
				body := ""
				if path == "/long" {
					body = strings.Repeat("x", 11)
				}
				res, err := client.Post("http://"+sv.Addr().String()+path, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Fatal(protocol, path, err)
				}
				res.Body.Close()
				if has := res.Header.Get("Date") != ""; res.StatusCode != status || has == none && path != "/own" || path == "/own" && !has {
					t.Errorf("%s %s with NoDate %v: %d, %v", protocol, path, none, res.StatusCode, res.Header)
				}
			}
		}
	}
}
