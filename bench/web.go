//go:build linux

package main

import (
	"fmt"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/bench/report"
)

// plaintext is the request that web servers are told, and its answer.
var plaintext = load.Plan{Path: peers.Path, Body: peers.Body}

func runHTTP(h *harness) ([]report.Section, error) {
	return h.web("http", "HTTP", 1)
}

func runHTTPPipeline(h *harness) ([]report.Section, error) {
	return h.web("http-pipeline", "Pipelined HTTP", h.o.depth)
}

// web measures plaintext over keep-alive connections: the same rows once for each of
// our ways to run a handler as the reference.
func (h *harness) web(name, title string, depth int) (sections []report.Section, err error) {
	plan := plaintext
	plan.Conns, plan.Depth = h.o.webConns, depth
	s, err := h.answers(name, inHTTP, plan)
	if err != nil {
		return nil, err
	}
	s.Note = fmt.Sprintf("%d keep-alive connections, %d requests in flight on each, %d bytes of body, one server core; latency is of a whole burst.",
		h.o.webConns, depth, len(peers.Body))
	for _, row := range s.Rows {
		if row.Ours {
			one := s
			one.Name = name + "-" + row.Name
			one.Title = title + ", " + row.Name
			one.Reference = row.Name
			sections = append(sections, one)
		}
	}
	if len(sections) == 0 {
		s.Title = title
		sections = append(sections, s)
	}
	return sections, nil
}

func runHTTPMemory(h *harness) ([]report.Section, error) {
	plan := plaintext
	plan.Depth = 1
	return h.memory("http-memory", inHTTP, plan, "spindle-lean")
}
