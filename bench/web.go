//go:build linux

package main

import (
	"fmt"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/bench/report"
)

// plaintext is the request to web servers, and its answer.
var plaintext = load.Plan{Path: peers.Path, Body: peers.Body}

func runHTTP(h *harness) ([]report.Section, error) {
	return h.web("http", "HTTP", 1)
}

func runHTTPPipeline(h *harness) ([]report.Section, error) {
	return h.web("http-pipeline", "Pipelined HTTP", h.o.depth)
}

// web measures plaintext over keep-alive connections. It returns the same rows once for
// each of Spindle's ways to run a handler, with that way as the reference.
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
	return h.memory("http-memory", "Memory of an idle keep-alive connection", inHTTP, plan, "spindle-lean")
}

// runSlowloris compares each web server with itself while many connections send only the
// beginning of a request.
func runSlowloris(h *harness) ([]report.Section, error) {
	plan := plaintext
	plan.Conns, plan.Depth = h.o.webConns, 1
	s, err := h.kept("slowloris", inHTTP, plan, func(p *load.Plan) { p.Slow = h.o.slow })
	if err != nil {
		return nil, err
	}
	s.Title = fmt.Sprintf("Throughput kept with %s slow clients", count(h.o.slow))
	s.Note = fmt.Sprintf("%d busy connections, and others that never finish their header; each server against itself without those, in the same round.", h.o.webConns)
	return []report.Section{s}, nil
}
