package web_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// TestEarlyRefusalReachesTheClient covers clients that send everything before they read: the
// server receives for a while after its last response.
func TestEarlyRefusalReachesTheClient(t *testing.T) {
	leak.Check(t, 2<<20)
	web.Linger(t, time.Minute)
	server, trust := certified(t)
	trust = trust.Clone()
	trust.ServerName = "example.com"
	for _, secured := range []*tls.Config{nil, trust} {
		s := &web.Server{
			MaxBodyBytes: 1000,
			Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){
				"/collects": func(c *web.LeanCtx) { c.ReadBody(100, func(*web.LeanCtx, []byte) {}) },
			}),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					w.WriteHeader(413)
				}
			}),
		}
		if secured != nil {
			s.TLS = server
		}
		sv := serve(t, s)
		much := strings.Repeat("x", 1<<20)
		for name, tt := range map[string]struct {
			request string
			status  int
		}{
			"declared length":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n" + much, 413},
			"chunks":             {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n" + much, 413},
			"header":             {"GET / HTTP/1.1\r\nHost: a\r\nX: " + much, 431},
			"bad chunk":          {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz" + much, 413},
			"what lean collects": {"POST /collects HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e7\r\n" + much, 413},
		} {
			t.Run(fmt.Sprintf("%s, tls %v", name, secured != nil), func(t *testing.T) {
				for range 3 {
					c := dialHalf(t, sv, secured)
					if _, err := io.WriteString(c, tt.request); err != nil {
						t.Fatal(err)
					}
					all, err := io.ReadAll(c)
					if err != nil || !strings.HasPrefix(string(all), fmt.Sprintf("HTTP/1.1 %d ", tt.status)) ||
						!strings.Contains(string(all), "Connection: close\r\n") {
						t.Fatalf("got %q, %v", all, err)
					}
					c.Close()
				}
			})
		}
	}
}

func TestBodyThatTurnsOutTooLarge(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		var tooLarge *http.MaxBytesError
		if !errors.As(err, &tooLarge) || tooLarge.Limit != 10 {
			t.Errorf("reading: %v", err)
		}
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}) {
		s.MaxBodyBytes = 10
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n8\r\nabcdefgh\r\n0\r\n\r\n")
			if res, _ := response(t, br, "POST"); res.StatusCode != 413 || !res.Close {
				t.Errorf("got %d, close %v", res.StatusCode, res.Close)
			}
		})
	}
}

func TestLeanBodyThatIsTooLarge(t *testing.T) {
	sv := serve(t, &web.Server{Lean: func(c *web.LeanCtx) bool {
		c.ReadBody(10, func(c *web.LeanCtx, body []byte) { c.Write(body) })
		return true
	}})
	for name, request := range map[string]string{
		"as it says":      "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n",
		"as it turns out": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n8\r\nabcdefgh\r\n",
	} {
		nc, br := dial(t, sv)
		io.WriteString(nc, request)
		if res, _ := response(t, br, "POST"); res.StatusCode != 413 || !res.Close {
			t.Errorf("%s: got %d, close %v", name, res.StatusCode, res.Close)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
	}
	// In pieces, with another request behind it.
	nc, br := dial(t, sv)
	io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 100 {
		t.Fatalf("got %v, %v", res, err)
	}
	io.WriteString(nc, "01234")
	io.WriteString(nc, "56789POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	for _, want := range []string{"0123456789", "x"} {
		if _, body := response(t, br, "POST"); body != want {
			t.Errorf("got %q, want %q", body, want)
		}
	}
}

func TestMaxBytesReader(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 10)
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v", len(body), err)
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			res, err := client(t).Post(url(sv, "/"), "text/plain", strings.NewReader(strings.Repeat("x", 100)))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if body, _ := io.ReadAll(res.Body); string(body) != "10 http: request body too large" {
				t.Errorf("got %q", body)
			}
		})
	}
}

// TestConnectionsBeyondTheLimitWait checks that they are served when others have closed.
func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	sv := serve(t, &web.Server{MaxConns: 1})
	first, br := dial(t, sv)
	io.WriteString(first, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	response(t, br, "GET")
	second, br := dial(t, sv)
	io.WriteString(second, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	first.Close()
	response(t, br, "GET")
}

func TestRequestLineMayBeAsLongAsConfigured(t *testing.T) {
	s := &web.Server{MaxRequestLineBytes: 100_000, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.URL.Path))
	})}
	line := func(n int) string { return "GET /" + strings.Repeat("x", n) + " HTTP/1.1\r\nHost: a\r\n\r\n" }
	sv := serve(t, s)
	if got := raw(t, sv, line(90_000), "GET"); got[0] != "200 90001" {
		t.Errorf("got %q", got)
	}
	if got := raw(t, sv, line(100_000), "GET"); !strings.HasPrefix(got[0], "414 ") {
		t.Errorf("got %q", got)
	}
}

// TestWorkersAreLimited checks that requests beyond the limit wait, and all are answered.
func TestWorkersAreLimited(t *testing.T) {
	leak.Check(t, 2<<20)
	var mu sync.Mutex
	running, most := 0, 0
	sv := serve(t, &web.Server{MaxWorkers: 2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		w.(http.Flusher).Flush() // takes a while
		mu.Lock()
		running--
		mu.Unlock()
	})})
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			res, err := http.Get(url(sv, "/"))
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
		})
	}
	all.Wait()
	http.DefaultClient.CloseIdleConnections()
	mu.Lock()
	defer mu.Unlock()
	if most > 2 {
		t.Errorf("%d ran at once", most)
	}
}
