package web_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// logged is a log that a test can read while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestPanicsEndTheConnection, and nothing else; they are logged unless the handler
// says that it wants just that.
func TestPanicsEndTheConnection(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "some")
		switch r.URL.Path {
		case "/behind":
			t.Error("a request behind a panic was served")
		case "/panic":
			panic("oh dear")
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
			for path, says := range map[string]string{"/panic": "oh dear", "/abort": "", "/exit": "Goexit", "/flushed": "", "/lean": "oh lean"} {
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

func TestMistakesOfHandlers(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/twice":
			w.WriteHeader(201)
			w.WriteHeader(202)
		case "/long":
			w.Header().Set("Content-Length", "3")
			if _, err := io.WriteString(w, "four"); err != http.ErrContentLength {
				t.Errorf("too much: %v", err)
			}
			io.WriteString(w, "abc")
		case "/short":
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "abc")
		case "/split":
			w.Header().Set("X-A", "1\r\nX-B: 2")
			io.WriteString(w, "abc")
		case "/length":
			w.Header().Set("Content-Length", "many")
			io.WriteString(w, "abc")
		}
	}) {
		var log logged
		s.ErrorLog = slog.New(slog.NewTextHandler(&log, nil))
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			c := client(t)
			if res, _ := get(t, c, url(sv, "/twice")); res.StatusCode != 201 || !strings.Contains(log.String(), "superfluous") {
				t.Errorf("twice: %d, %q", res.StatusCode, log.String())
			}
			if _, body := get(t, c, url(sv, "/long")); body != "abc" {
				t.Errorf("long: %q", body)
			}
			res, err := c.Get(url(sv, "/short"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(res.Body); err != io.ErrUnexpectedEOF {
				t.Errorf("short: %v", err)
			}
			res.Body.Close()
			if res, _ := get(t, c, url(sv, "/split")); res.StatusCode != 500 || res.Header.Get("X-B") != "" {
				t.Errorf("split: %d %v", res.StatusCode, res.Header)
			}
			if _, body := get(t, c, url(sv, "/length")); body != "abc" {
				t.Errorf("length: %q", body)
			}
		})
	}
}

func TestAccessLog(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		io.WriteString(w, "hello")
	}) {
		var log logged
		s.AccessLog = slog.New(slog.NewTextHandler(&log, nil))
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("hi") }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			c := client(t)
			get(t, c, url(sv, "/a?b=c"))
			get(t, c, url(sv, "/lean"))
			if err := sv.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			for _, want := range []string{
				"msg=request remote=127.0.0.1:",
				`method=GET host=` + sv.Addr().String() + ` target="/a?b=c" proto=HTTP/1.1 status=201 bytes=5 took=`,
				`target=/lean proto=HTTP/1.1 status=200 bytes=2 took=`,
			} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %q in %q", want, log.String())
				}
			}
		})
	}
}

// TestLeanHandlerThatLeavesABodyItAskedFor: the Handler gets the request, and the next
// one on the connection is nobody's business but its own.
func TestLeanHandlerThatLeavesABodyItAskedFor(t *testing.T) {
	sv := serve(t, &web.Server{
		Lean: func(c *web.LeanCtx) bool {
			if string(c.Path()) == "/plain" {
				c.WriteString("plain")
				return true
			}
			c.ReadBody(100, func(c *web.LeanCtx, body []byte) { c.WriteString("not asked any more") })
			return false
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }),
	})
	nc, br := dial(t, sv)
	io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"+
		"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []string{"hello", "plain"} {
		if _, got := response(t, br, "GET"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestAReadThatPanicsIsNoReader: the next one is not refused as the second of two.
func TestAReadThatPanicsIsNoReader(t *testing.T) {
	stumble := func(r io.Reader) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		runtime.LockOSThread() // what no task may hold while it waits
		r.Read(make([]byte, 1))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		stumble(r.Body)
		w.Write([]byte("first "))
		w.(http.Flusher).Flush()
		io.Copy(w, r.Body)
	})
	mux.HandleFunc("/hijacked", func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		stumble(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst ")
		io.CopyN(c, c, 5)
	})
	sv := serve(t, &web.Server{Handler: web.Inline(mux)})
	for _, request := range []string{
		"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
		"GET /hijacked HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		nc, br := dial(t, sv)
		io.WriteString(nc, request)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, "hello")
		if got, err := io.ReadAll(res.Body); string(got) != "first hello" || err != nil {
			t.Errorf("%q: got %q, %v", request, got, err)
		}
	}
}
