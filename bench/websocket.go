//go:build linux

package main

import (
	"fmt"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/report"
)

// runWS measures echo of WebSocket messages.
func runWS(h *harness) ([]report.Section, error) {
	s, err := h.answers("ws", inWebSocket, load.Plan{WebSocket: true, Conns: h.o.conns, Depth: 1})
	if err != nil {
		return nil, err
	}
	s.Title, s.Reference = "WebSocket echo", "spindle-socket"
	s.Note = fmt.Sprintf("%d connections, one message of %d bytes in flight on each, one server core.", h.o.conns, h.o.size)
	return []report.Section{s}, nil
}

func runWSMemory(h *harness) ([]report.Section, error) {
	return h.memory("ws-memory", "Memory of an idle WebSocket", inWebSocket, load.Plan{WebSocket: true, Depth: 1}, "spindle-socket")
}
