//go:build linux

package main

import (
	"fmt"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/internal/report"
)

// A kind is a kind of connection. Clients of the standard library speak TLS and HTTP/2: with them there are
// a third of the connections, and web servers say what is live.
type kind struct {
	name, title, protocol string
	plan                  load.Plan
}

var kinds = []kind{
	{"memory", "Memory of an idle connection", inEcho, load.Plan{}},
	{"memory-http", "Memory of an idle keep-alive connection", inHTTP, load.Plan{Path: peers.Path, Body: peers.Body}},
	{"memory-ws", "Memory of an idle WebSocket", inWebSocket, load.Plan{WebSocket: true}},
	{"memory-tls", "Memory of an idle TLS connection", inTLS, load.Plan{Client: "tls"}},
	{"memory-https", "Memory of an idle keep-alive connection over TLS", inHTTPS, load.Plan{Client: "https", Path: peers.Path}},
	{"memory-http2", "Memory of an idle HTTP/2 connection", inHTTP2, load.Plan{Client: "h2c", Path: peers.Path}},
	{"memory-http2-tls", "Memory of an idle HTTP/2 connection over TLS", inHTTP2TLS, load.Plan{Client: "h2", Path: peers.Path}},
}

// memoryBenchmarks measure the memory of an idle connection: the slope of resident memory
// between two numbers of connections. The memory of a server without connections cancels
// out. Each figure is of a new process, because no server returns its memory when
// connections close.
func memoryBenchmarks() (all []benchmark) {
	for _, k := range kinds {
		all = append(all, benchmark{
			name: k.name, group: "kinds", about: "bytes of an idle connection, " + k.protocol, speaks: []string{k.protocol},
			run: func(h *harness) ([]report.Section, error) { return h.memory(k) },
		})
	}
	return all
}

func (h *harness) memory(k kind) ([]report.Section, error) {
	contenders := map[string]*contender{}
	var names []string
	live := k.plan.Client != "" && k.plan.Path != ""
	for _, c := range h.speaking(k.protocol) {
		if live && !known(c.name, peers.Names()) {
			continue // it does not say what is live
		}
		contenders[c.name] = c
		names = append(names, c.name)
	}
	k.plan.Depth, k.plan.MemorySteps = 1, []int{h.o.low, h.o.high}
	if k.plan.Client != "" {
		k.plan.MemorySteps = []int{h.o.low / 3, h.o.high / 3}
	}
	low, high := k.plan.MemorySteps[0], k.plan.MemorySteps[1]
	slope := func(at []int64) float64 { return float64(at[1]-at[0]) / float64(high-low) }
	var t report.Tally
	names, err := h.rounds(k.name, names, func(server string, _ int) error {
		c := contenders[server]
		s, err := h.start(c, k.protocol, h.o.size)
		if err != nil {
			return err
		}
		defer s.Stop()
		r, err := h.load(s, k.plan)
		if err != nil {
			return err
		}
		if live {
			t.Add(server, c.ours, slope(r.RSSBytes), slope(r.TrimmedBytes), slope(r.LiveBytes))
		} else {
			t.Add(server, c.ours, slope(r.RSSBytes), float64(r.RSSBytes[0])/1024, float64(r.RSSBytes[1])/1024)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	columns := []report.Column{
		{Name: "bytes / connection", Unit: report.Bytes, Better: report.Lower},
		{Name: fmt.Sprintf("KiB at %s", count(low)), Unit: report.Bytes, Better: report.Lower},
		{Name: fmt.Sprintf("KiB at %s", count(high)), Unit: report.Bytes, Better: report.Lower},
	}
	if live {
		columns[1].Name, columns[2].Name = "after a collection", "live"
	}
	return []report.Section{{
		Name:  k.name,
		Title: k.title,
		Note: fmt.Sprintf("Resident bytes for each connection that was answered once, as the slope from %s to %s connections.",
			count(low), count(high)),
		Columns:   columns,
		Rows:      t.Rows(names),
		Reference: h.reference(names),
	}}, nil
}
