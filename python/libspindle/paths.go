//go:build spindle_python

package main

import (
	"fmt"
	"net/http"
	"strings"
)

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
		if r.Method == http.MethodConnect && !isStreamSocket(r) {
			c.addDefaults(w.Header())
			s.serveFile(w, r, http.HandlerFunc(refuseTunnel))
			return
		}
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

// refuseTunnel answers CONNECT. An app cannot tunnel, and its 200 would tell the client that what
// follows belongs to the tunnel.
func refuseTunnel(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	http.Error(w, "this server is no proxy", http.StatusNotImplemented)
}

// serveFile answers a request without the app, most often for a file. It appears in the log and the metrics like one to the app.
func (s *server) serveFile(w http.ResponseWriter, r *http.Request, files http.Handler) {
	entry := s.log.beginRequest(s.clientOfRequest(r), r)
	own := &fileResponse{ResponseWriter: w}
	files.ServeHTTP(own, r)
	status, bytes := own.result()
	s.counters.count(status, bytes)
	if s.log != nil {
		_ = s.p.l.Post(func() { s.log.end(entry, status, bytes) }) // fails if the loop has ended
	}
}
