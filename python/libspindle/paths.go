//go:build spindle_python

package main

import (
	"net/http"
	"strings"
)

// ownPath reports whether Go answers requests to path itself.
func (s *server) ownPath(path []byte) bool {
	c := &s.config
	if len(c.Static) == 0 && c.Metrics == "" && c.Health == "" && c.Ready == "" {
		return false
	}
	p := string(path)
	switch p {
	case "":
		return false
	case c.Metrics, c.Health, c.Ready:
		return true
	}
	for _, d := range c.Static {
		if strings.HasPrefix(p, d.Prefix) {
			return true
		}
	}
	return false
}

// handler answers what the app does not get as an HTTP request.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.serveWebSocket)
	return mux
}
