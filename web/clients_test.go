package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// curl runs the command, which .ci/run installs.
func curl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("curl", append([]string{"--silent", "--show-error", "--max-time", "20"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("curl %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestCurl(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %v", r.Method, len(body), err)
	})
	mux.HandleFunc("/trickle", func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprint(w, i)
			w.(http.Flusher).Flush()
		}
	})
	for name, s := range kinds(mux.ServeHTTP) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			if got := curl(t, url(sv, "/echo"), url(sv, "/echo")); got != "GET 0 <nil>GET 0 <nil>" {
				t.Errorf("two on one connection: %q", got)
			}
			if got := curl(t, url(sv, "/trickle")); got != "012" {
				t.Errorf("chunks: %q", got)
			}
			body := strings.Repeat("x", 2<<20) // of that size curl expects a 100
			cmd := exec.Command("curl", "--silent", "--show-error", "--max-time", "20", "--data-binary", "@-", url(sv, "/echo"))
			cmd.Stdin = strings.NewReader(body)
			if got, err := cmd.CombinedOutput(); err != nil || string(got) != fmt.Sprintf("POST %d <nil>", len(body)) {
				t.Errorf("upload: %q, %v", got, err)
			}
			if got := curl(t, "--head", url(sv, "/trickle")); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
				t.Errorf("HEAD: %q", got)
			}
			if got := curl(t, "--http1.0", url(sv, "/trickle")); got != "012" {
				t.Errorf("HTTP/1.0: %q", got)
			}
			if got := curl(t, "--http2", url(sv, "/trickle")); got != "012" {
				t.Errorf("a request to upgrade to HTTP/2: %q", got)
			}
		})
	}
}

// TestServerSentEvents checks that each event arrives when it is sent, and that the handler
// ends when the client disconnects.
func TestServerSentEvents(t *testing.T) {
	ended := make(chan error, 1)
	next := make(chan bool)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			if spindle.Current(r.Context()) != nil {
				spindle.Sleep(r.Context(), time.Millisecond)
				continue
			}
			<-next
		}
		ended <- untilEnd(r.Context())
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			res, err := http.ReadResponse(br, nil)
			if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("got %v, %v", res, err)
			}
			lines := bufio.NewReader(res.Body)
			for i := range 3 {
				if line, err := lines.ReadString('\n'); line != fmt.Sprintf("data: %d\n", i) {
					t.Errorf("got %q, %v", line, err)
				}
				lines.ReadString('\n')
				if name == "worker" {
					next <- true
				}
			}
			nc.Close()
			<-ended
		})
	}
}

// TestServeMuxAndMiddleware uses them unmodified, with inline handlers among others.
func TestServeMuxAndMiddleware(t *testing.T) {
	show := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		task := spindle.Current(r.Context()) != nil
		fmt.Fprintf(w, "%s %s task=%v", r.Pattern, r.PathValue("id"), task)
	})
	api := http.NewServeMux()
	api.Handle("GET /api/{id}", web.Inline(show))
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", web.Inline(show))
	mux.Handle("GET /work/{id}", show)
	mux.Handle("/api/", http.TimeoutHandler(http.MaxBytesHandler(api, 10), time.Minute, "late"))
	mux.Handle("/x/", http.StripPrefix("/x", web.Inline(mux)))
	waits := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spindle.Sleep(r.Context(), time.Hour)
		fmt.Fprint(w, context.Cause(r.Context()))
	}))
	mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
		defer cancel()
		waits.ServeHTTP(w, r.WithContext(ctx))
	})
	sv := serve(t, &web.Server{Handler: mux})
	c := client(t)
	for path, want := range map[string]string{
		"/items/7":   "GET /items/{id} 7 task=true",
		"/work/8":    "GET /work/{id} 8 task=false",
		"/api/9":     "GET /api/{id} 9 task=true",
		"/x/items/1": "GET /items/{id} 1 task=true",
	} {
		if _, body := get(t, c, url(sv, path)); body != want {
			t.Errorf("%s: got %q, want %q", path, body, want)
		}
	}
	if _, body := get(t, c, url(sv, "/late")); body != "context deadline exceeded" {
		t.Errorf("a middleware's deadline: %q", body)
	}
	if res, _ := get(t, c, url(sv, "/none")); res.StatusCode != 404 {
		t.Errorf("got %d", res.StatusCode)
	}
}
