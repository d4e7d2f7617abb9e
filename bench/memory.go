//go:build linux

package main

import (
	"fmt"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/report"
)

// runMemory measures the memory of an idle connection: the slope of resident memory
// between two numbers of connections. The memory of a server without connections cancels
// out. Each figure is of a new process, because no server returns its memory when
// connections close.
func runMemory(h *harness) ([]report.Section, error) {
	return h.memory("memory", "Memory of an idle connection", "", load.Plan{Depth: 1}, h.o.reference)
}

func (h *harness) memory(name, title, protocol string, plan load.Plan, reference string) ([]report.Section, error) {
	contenders := map[string]*contender{}
	var names []string
	for _, c := range h.speaking(protocol) {
		contenders[c.name] = c
		names = append(names, c.name)
	}
	var t tally
	names, err := h.rounds(name, names, func(server string, _ int) error {
		low, high, err := h.memoryAt(contenders[server], plan)
		if err != nil {
			return err
		}
		slope := float64(high-low) / float64(h.o.high-h.o.low)
		t.add(server, contenders[server].ours, slope, float64(low)/1024, float64(high)/1024)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []report.Section{{
		Name:  name,
		Title: title,
		Note: fmt.Sprintf("Resident bytes for each connection that was answered once, as the slope from %s to %s connections.",
			count(h.o.low), count(h.o.high)),
		Columns: []report.Column{
			{Name: "bytes / connection", Unit: report.Bytes, Better: report.Lower},
			{Name: fmt.Sprintf("KiB at %s", count(h.o.low)), Unit: report.Bytes, Better: report.Lower},
			{Name: fmt.Sprintf("KiB at %s", count(h.o.high)), Unit: report.Bytes, Better: report.Lower},
		},
		Rows:      t.ordered(names),
		Reference: reference,
	}}, nil
}

// memoryAt returns the resident memory of a new server with few and with many
// connections.
func (h *harness) memoryAt(c *contender, plan load.Plan) (low, high int64, err error) {
	s, err := h.start(c, h.o.size)
	if err != nil {
		return 0, 0, err
	}
	defer s.Stop()
	plan.MemorySteps = []int{h.o.low, h.o.high}
	r, err := h.load(s, plan)
	if err != nil {
		return 0, 0, err
	}
	return r.RSSBytes[0], r.RSSBytes[1], nil
}
