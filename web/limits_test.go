package web_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

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
			t.Errorf("%s: it goes on: %v", name, err)
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

// TestConnectionsBeyondTheLimitWait until there is room.
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

// TestWorkersAreLimited: requests beyond the limit wait for one, and all are answered.
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

// TestUnreadBodyIsSkipped: a short one, so that the connection goes on; behind a long
// one it is closed.
func TestUnreadBodyIsSkipped(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.Write(c.Path()) }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/lean"} {
				nc, br := dial(t, sv)
				for range 2 {
					body := strings.Repeat("x", 100_000)
					go fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
					if _, got := response(t, br, "POST"); got != path {
						t.Errorf("got %q", got)
					}
				}
				nc, br = dial(t, sv)
				io.WriteString(nc, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
				go io.WriteString(nc, strings.Repeat("x", 10_000_000))
				if _, got := response(t, br, "POST"); got != path {
					t.Errorf("got %q", got)
				}
				if _, err := br.ReadByte(); err == nil {
					t.Error("it goes on")
				}
			}
		})
	}
}

// TestFullDuplex: the response is written while the request is read.
func TestFullDuplex(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			w.(http.Flusher).Flush()
		}
	}) {
		t.Run(name, func(t *testing.T) {
			pr, pw := io.Pipe()
			req, _ := http.NewRequest("POST", url(serve(t, s), "/"), pr)
			go io.WriteString(pw, "first\n")
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			br := bufio.NewReader(res.Body)
			for _, next := range []string{"second", "third", ""} {
				line, err := br.ReadString('\n')
				if err != nil || line == "" {
					t.Fatalf("got %q, %v", line, err)
				}
				if next == "" {
					pw.Close()
				} else {
					io.WriteString(pw, next+"\n")
				}
			}
		})
	}
}

// TestLargeBodiesBothWays: more than any buffer, with back-pressure.
func TestLargeBodiesBothWays(t *testing.T) {
	const size = 5 << 20
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	}) {
		t.Run(name, func(t *testing.T) {
			body := strings.Repeat("0123456789", size/10)
			res, err := client(t).Post(url(serve(t, s), "/"), "text/plain", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
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
