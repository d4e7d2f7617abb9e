package web_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// wrapped is a ResponseWriter of middleware, without Unwrap.
type wrapped struct {
	http.ResponseWriter
	status int
}

func (w *wrapped) WriteHeader(status int) { w.status = status; w.ResponseWriter.WriteHeader(status) }

// unwrappable is a ResponseWriter of middleware with Unwrap.
type unwrappable struct{ wrapped }

func (w *unwrappable) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// compressing is a ResponseWriter that compresses.
type compressing struct {
	http.ResponseWriter
	to *gzip.Writer
}

func (w compressing) Write(p []byte) (int, error) { return w.to.Write(p) }

// hijackable is a ResponseWriter that has the optional methods and no Unwrap.
type hijackable struct{ wrapped }

func (w *hijackable) Flush() { w.ResponseWriter.(http.Flusher).Flush() }
func (w *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.ResponseWriter.(http.Hijacker).Hijack()
}

type middlewareKey struct{}

// middleware is what works around a handler, whichever way it runs. The paths begin with /api.
var middleware = map[string]func(next http.Handler) http.Handler{
	"none":                 func(next http.Handler) http.Handler { return next },
	"TimeoutHandler":       func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Minute, "late") },
	"StripPrefix":          func(next http.Handler) http.Handler { return http.StripPrefix("/api", next) },
	"MaxBytesHandler":      func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 100) },
	"AllowQuerySemicolons": http.AllowQuerySemicolons,
	"ServeMux": func(next http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /api/{rest...}", next)
		return mux
	},
	"ServeMux in a ServeMux": func(next http.Handler) http.Handler {
		inner, outer := http.NewServeMux(), http.NewServeMux()
		inner.Handle("/{rest...}", next)
		outer.Handle("/api/", http.StripPrefix("/api", inner))
		return outer
	},
	"a writer without Unwrap": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&wrapped{ResponseWriter: w}, r)
	}),
	"a writer with Unwrap": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&unwrappable{wrapped{ResponseWriter: w}}, r)
	}),
	"a writer with the optional methods": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&hijackable{wrapped{ResponseWriter: w}}, r)
	}),
	"a writer that compresses": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		to := gzip.NewWriter(w)
		defer to.Close()
		next.ServeHTTP(compressing{w, to}, r)
	}),
	"a recorder": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		w.WriteHeader(rec.Code)
		rec.Body.WriteTo(w)
	}),
	"a goroutine": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			next.ServeHTTP(w, r)
		}()
		if fault := <-done; fault != nil {
			panic(fault)
		}
	}),
	"a recover": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				http.Error(w, fmt.Sprint("recovered: ", v), http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	}),
	"a context with a value and a deadline": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), middlewareKey{}, "value"), time.Minute)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	}),
	"another context": around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.Background()))
	}),
}

// around makes middleware of a function.
func around(serve func(next http.Handler, w http.ResponseWriter, r *http.Request)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(next, w, r) })
	}
}

// TestMiddleware: what net/http and its users put around handlers works around handlers on
// goroutines and in tasks. A lean handler is called before any of them.
func TestMiddleware(t *testing.T) {
	onGoroutine := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply(w, r, func() error { return nil }) })
	inTask := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply(w, r, func() error { return spindle.Sleep(r.Context(), time.Millisecond) })
	}))
	for name, mw := range middleware {
		for kind, h := range map[string]http.Handler{"goroutine": onGoroutine, "Inline": inTask, "Inline twice": web.Inline(inTask)} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				sv := serve(t, &web.Server{Handler: mw(h)})
				for path, want := range map[string]string{"/api/": "200 hello", "/api/panic": "500"} {
					if path == "/api/panic" && name != "a recover" {
						continue // without an answer
					}
					res, err := client(t).Post(url(sv, path), "", strings.NewReader("hello"))
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					if got := fmt.Sprint(res.StatusCode, " ", string(body)); err != nil || !strings.HasPrefix(got, want) {
						t.Errorf("%s: %s, %v, want %s", path, got, err, want)
					}
				}
			})
		}
	}
}

// reply repeats the request's body after a wait.
func reply(w http.ResponseWriter, r *http.Request, wait func() error) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = wait()
	}
	if strings.HasSuffix(r.URL.Path, "/panic") {
		panic("of the handler")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Write(bytes.TrimSpace(body))
}

// TestTimeoutHandlerAroundInline: when the time is over, the client gets the 503, and the task
// of the handler is cancelled.
func TestTimeoutHandlerAroundInline(t *testing.T) {
	ended := make(chan error, 1)
	h := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended <- spindle.Sleep(r.Context(), time.Hour)
	}))
	sv := serve(t, &web.Server{Handler: http.TimeoutHandler(h, 10*time.Millisecond, "late")})
	res, body := get(t, client(t), url(sv, "/"))
	if res.StatusCode != 503 || body != "late" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	if err := <-ended; err == nil {
		t.Error("the handler was not cancelled")
	}
}

// TestInlineInMiddlewareThatBlocks: what cannot work says what to write instead.
func TestInlineInMiddlewareThatBlocks(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "write http.TimeoutHandler(web.Inline(h), …)") {
			t.Error(text)
		}
	}()
	web.Inline(http.TimeoutHandler(http.NotFoundHandler(), time.Second, ""))
}

// TestForgottenInlineIsNamed: calls for tasks in a handler on a goroutine, and in an inline
// handler that another server runs, say what is missing.
func TestForgottenInlineIsNamed(t *testing.T) {
	faults := make(chan any, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { faults <- recover() }()
		spindle.Sleep(r.Context(), time.Millisecond)
	})
	sv := serve(t, &web.Server{Handler: h})
	get(t, client(t), url(sv, "/"))
	if text := fmt.Sprint(<-faults); !strings.Contains(text, "spindle: Sleep ") || !strings.Contains(text, "web.Inline") {
		t.Error(text)
	}
	web.Inline(h).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if text := fmt.Sprint(<-faults); !strings.Contains(text, "web.Inline") || !strings.Contains(text, "served by web.Server") {
		t.Error(text)
	}
}
