//go:build spindle_python

package main

import (
	"fmt"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// counters are what the metrics show. Any goroutine may use them.
type counters struct {
	requests [6]atomic.Uint64 // by the first digit of the status; 0 if there was none
	bytes    atomic.Uint64    // of bodies of responses
	active   atomic.Int64     // requests that the app answers
	sockets  atomic.Uint64    // WebSockets that were opened
	draining atomic.Bool
}

func (c *counters) count(status int, bytes int64) {
	if class := status / 100; class < len(c.requests) {
		c.requests[class].Add(1)
	}
	c.bytes.Add(uint64(bytes))
	c.active.Add(-1)
}

// ownPath reports whether Go answers requests to path itself.
func (s *server) ownPath(path []byte) bool {
	c := &s.config
	if !c.own || len(path) == 0 {
		return false
	}
	switch p := string(path); p {
	case c.Metrics, c.Health, c.Ready:
		return true
	default:
		for _, d := range c.Static {
			if strings.HasPrefix(p, d.Prefix+"/") {
				return true
			}
		}
	}
	return false
}

// handler answers what the app does not get as an HTTP request.
func (s *server) handler() http.Handler {
	files := make([]http.Handler, len(s.config.Static))
	for i, d := range s.config.Static {
		files[i] = http.StripPrefix(d.Prefix, staticFiles(d.Dir))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &s.config
		if !s.ownPath([]byte(r.URL.Path)) {
			s.serveWebSocket(w, r)
			return
		}
		switch r.URL.Path {
		case c.Metrics:
			s.serveMetrics(w)
		case c.Health:
			fmt.Fprintln(w, "ok")
		case c.Ready:
			if s.counters.draining.Load() {
				http.Error(w, "stopping", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		default:
			for i, d := range c.Static {
				if strings.HasPrefix(r.URL.Path, d.Prefix+"/") {
					files[i].ServeHTTP(w, r)
					return
				}
			}
		}
	})
}

func (s *server) serveMetrics(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	c := &s.counters
	fmt.Fprint(w, "# HELP spindle_requests_total Requests that were answered, by the class of the status.\n# TYPE spindle_requests_total counter\n")
	for class := 1; class < len(c.requests); class++ {
		fmt.Fprintf(w, "spindle_requests_total{status=\"%dxx\"} %d\n", class, c.requests[class].Load())
	}
	fmt.Fprintf(w, "# HELP spindle_requests_aborted_total Requests with a response that was not completed.\n# TYPE spindle_requests_aborted_total counter\nspindle_requests_aborted_total %d\n", c.requests[0].Load())
	fmt.Fprintf(w, "# HELP spindle_requests_active Requests that the app answers.\n# TYPE spindle_requests_active gauge\nspindle_requests_active %d\n", c.active.Load())
	fmt.Fprintf(w, "# HELP spindle_response_bytes_total Bytes of the bodies of responses.\n# TYPE spindle_response_bytes_total counter\nspindle_response_bytes_total %d\n", c.bytes.Load())
	fmt.Fprintf(w, "# HELP spindle_websockets_total WebSockets that were opened.\n# TYPE spindle_websockets_total counter\nspindle_websockets_total %d\n", c.sockets.Load())
}

// encodings are the compressed forms of a file that may stand beside it, the best first.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

// staticFiles serves a directory. A file that stands beside another one in compressed form
// is sent instead, to clients that accept it.
func staticFiles(dir string) http.Handler {
	plain := http.FileServer(http.Dir(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Clean("/" + r.URL.Path)
		w.Header().Add("Vary", "Accept-Encoding") // also without an encoding: a cache may ask for both
		for _, e := range encodings {
			if strings.HasSuffix(r.URL.Path, "/") || !accepts(r, e.name) {
				continue
			}
			f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)+e.suffix))
			if err != nil {
				continue
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			kind := mime.TypeByExtension(path.Ext(name))
			if kind == "" {
				kind = "application/octet-stream"
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Encoding", e.name)
			http.ServeContent(w, r, name, info.ModTime(), f)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

// accepts reports whether the client accepts an encoding.
func accepts(r *http.Request, encoding string) bool {
	for item := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.EqualFold(name, encoding) {
			return !refused(quality)
		}
	}
	return false
}

// refused reports whether the parameters of an encoding are a quality of zero.
func refused(parameters string) bool {
	text, found := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q=")
	q, err := strconv.ParseFloat(text, 64)
	return found && err == nil && q == 0
}
