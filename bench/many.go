//go:build linux

package main

import (
	"fmt"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/internal/report"
)

// manyServers is how many processes share the connections of the benchmark many, because the system limits
// the descriptors of one. The clients are in as many processes.
const manyServers = 3

// runMany holds very many connections. It sends a message on every connection, leaves all of them idle, and sends another one.
func runMany(h *harness) ([]report.Section, error) {
	contenders, names := map[string]*contender{}, []string{}
	for _, c := range h.speaking(inEcho) {
		contenders[c.name], names = c, append(names, c.name)
	}
	each := h.o.many / manyServers
	var t report.Tally
	names, err := h.rounds("many", names, func(name string, _ int) error {
		results := make(chan load.Result, manyServers)
		errs := make(chan error, manyServers)
		for range manyServers {
			s, err := proc.StartServer([]int{h.serverCPU, h.loadCPU}, contenders[name].command(serving{listenAddr, h.o.size, inEcho}), nil)
			if err != nil {
				return err
			}
			defer s.Stop()
			go func() {
				r, err := h.load(s, load.Plan{Depth: 1, MemorySteps: []int{1, each}, Rest: h.o.rest})
				results <- r
				errs <- err
			}()
		}
		var bytes int64
		var opened, again, cpu float64
		var failed error
		for range manyServers {
			r := <-results
			if err := <-errs; err != nil {
				failed = err
				continue
			}
			bytes += r.RSSBytes[1] - r.RSSBytes[0]
			opened, again, cpu = max(opened, r.Opened.Seconds()), max(again, r.Again.Seconds()), cpu+r.RestCPU.Seconds()*1e3
		}
		if failed == nil {
			t.Add(name, contenders[name].ours, float64(bytes)/float64(manyServers*(each-1)), opened, cpu, again)
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	return []report.Section{{
		Name: "many", Title: count(manyServers*each) + " connections",
		Note: fmt.Sprintf("%d servers in processes of their own. Each connection is answered once, is idle for %v, and is answered again.", manyServers, h.o.rest),
		Columns: []report.Column{
			{Name: "bytes / connection", Unit: report.Bytes, Better: report.Lower},
			{Name: "opened in s", Unit: report.Share, Better: report.Lower},
			{Name: "idle CPU ms", Unit: report.Share, Better: report.Lower},
			{Name: "again in s", Unit: report.Share, Better: report.Lower},
		},
		Rows: t.Rows(names),
	}}, nil
}
