//go:build spindle_python

package main

import (
	"fmt"
	"net/http"
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
		files[i] = http.StripPrefix(d.Prefix, directory(d.Dir))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &s.config
		if !s.ownPath([]byte(r.URL.Path)) {
			s.serveWebSocket(w, r)
			return
		}
		c.addDefaults(w.Header())
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
					s.serveFile(w, r, files[i])
					return
				}
			}
		}
	})
}

// serveFile answers a request for a file, which appears in the log and the metrics like one to the app.
func (s *server) serveFile(w http.ResponseWriter, r *http.Request, files http.Handler) {
	entry := s.log.beginRequest(r)
	own := &fileResponse{ResponseWriter: w}
	files.ServeHTTP(own, r)
	status, bytes := own.result()
	s.counters.count(status, bytes)
	if s.log != nil {
		_ = s.p.l.Post(func() { s.log.end(entry, status, bytes) }) // fails if the loop has ended
	}
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
