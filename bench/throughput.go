//go:build linux

package main

import (
	"cmp"
	"fmt"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/internal/report"
)

// busyShare is the utilisation below which a process counts as not saturated.
const busyShare = 0.85

// serverSet is the set of running servers of a benchmark.
type serverSet struct {
	names      []string
	contenders map[string]*contender
	servers    map[string]*proc.Server
}

// startServers starts every contender that speaks a protocol. It records a failure for
// each one that does not start, and fails if none does.
func (h *harness) startServers(benchmark, protocol string, bufferBytes int) (*serverSet, error) {
	set := &serverSet{contenders: map[string]*contender{}, servers: map[string]*proc.Server{}}
	for _, c := range h.speaking(protocol) {
		s, err := h.start(c, protocol, bufferBytes)
		if err != nil {
			h.fail(benchmark, c.name, err)
			continue
		}
		set.names = append(set.names, c.name)
		set.contenders[c.name], set.servers[c.name] = c, s
	}
	if len(set.names) == 0 {
		return nil, fmt.Errorf("%s: %w", benchmark, errNothing)
	}
	return set, nil
}

func (set *serverSet) stop() {
	for _, s := range set.servers {
		s.Stop()
	}
}

// closed returns a benchmark in which connections send the next burst of messages when all of the last are answered.
func closed(name, about, protocol, title, note string, plan func(options) load.Plan) benchmark {
	return benchmark{name: name, about: about, speaks: []string{protocol}, run: func(h *harness) ([]report.Section, error) {
		p := plan(h.o)
		s, err := h.answers(name, protocol, p)
		s.Title, s.Note = title, fmt.Sprintf(note, p.Conns, p.Depth, h.o.messageBytes(p))
		return []report.Section{s}, err
	}}
}

// answers measures how many messages the servers of a protocol answer.
func (h *harness) answers(name, protocol string, plan load.Plan) (report.Section, error) {
	set, err := h.startServers(name, protocol, cmp.Or(plan.SizeBytes, h.o.size)*plan.Depth)
	if err != nil {
		return report.Section{}, err
	}
	defer set.stop()
	var t report.Tally
	plan.Warmup, plan.Window = h.o.warmup, h.o.window
	names, err := h.rounds(name, set.names, func(server string, _ int) error {
		r, err := h.load(set.servers[server], plan)
		if err != nil {
			return err
		}
		t.Add(server, set.contenders[server].ours, r.PerCPUSecond(), r.PerSecond(),
			r.P50.Seconds()*1e6, r.P99.Seconds()*1e6, r.Utilisation(), r.LoadBusy)
		return nil
	})
	if err != nil {
		return report.Section{}, err
	}
	s := report.Section{
		Name: name,
		Columns: []report.Column{
			{Name: "requests / CPU-s", Unit: report.PerSecond},
			{Name: "requests / s", Unit: report.PerSecond},
			{Name: "p50 µs", Unit: report.Microseconds, Better: report.Lower},
			{Name: "p99 µs", Unit: report.Microseconds, Better: report.Lower},
			{Name: "CPU ÷ wall", Unit: report.Share},
			{Name: "load's", Unit: report.Share},
		},
		Rows:      t.Rows(names),
		Reference: h.reference(names),
	}
	for i := range s.Rows {
		figures := s.Rows[i].Figures
		s.Rows[i].Mark = idleMark(report.SpreadOf(figures[4]).Median, report.SpreadOf(figures[5]).Median)
	}
	return s, nil
}

// idleMark returns the caveat for a server that was idle for part of the window.
func idleMark(server, load float64) string {
	switch {
	case server >= busyShare:
		return ""
	case load >= busyShare:
		return fmt.Sprintf("only %.0f %% busy: the load generator was the limit", server*100)
	}
	// A server with several threads may sleep while requests wait. So may any server
	// if another process uses its core.
	return fmt.Sprintf("only %.0f %% busy, the load generator %.0f %%: it waited for itself, or for its core", server*100, load*100)
}

// runIdle compares each server with itself: the same load with and without many idle
// connections.
func runIdle(h *harness) ([]report.Section, error) {
	s, err := h.kept("idle10k", inEcho, load.Plan{Conns: h.o.active, Depth: 1}, func(p *load.Plan) { p.Idle = h.o.idle })
	if err != nil {
		return nil, err
	}
	s.Title = fmt.Sprintf("Throughput kept with %s idle connections", count(h.o.idle))
	s.Note = fmt.Sprintf("%d busy connections; each server against itself without the idle ones, in the same round.", h.o.active)
	return []report.Section{s}, nil
}

// kept compares each server of a protocol with itself: under the base load, and with the
// connections that addConns adds to it.
func (h *harness) kept(name, protocol string, base load.Plan, addConns func(*load.Plan)) (report.Section, error) {
	set, err := h.startServers(name, protocol, h.o.size)
	if err != nil {
		return report.Section{}, err
	}
	defer set.stop()
	var t report.Tally
	base.Warmup, base.Window = h.o.warmup, h.o.window
	extended := base
	addConns(&extended)
	names, err := h.rounds(name, set.names, func(server string, round int) error {
		// The order alternates, because a server's heap differs before and after
		// its first ten thousand connections.
		first, second := &base, &extended
		if round%2 == 1 {
			first, second = second, first
		}
		results := map[*load.Plan]load.Result{}
		for _, p := range []*load.Plan{first, second} {
			r, err := h.load(set.servers[server], *p)
			if err != nil {
				return err
			}
			results[p] = r
		}
		with, without := results[&extended], results[&base]
		t.Add(server, set.contenders[server].ours, with.PerCPUSecond()/without.PerCPUSecond(),
			with.PerCPUSecond(), without.PerCPUSecond(), with.P99.Seconds()*1e6, without.P99.Seconds()*1e6)
		return nil
	})
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{
		Name: name,
		Columns: []report.Column{
			{Name: "with ÷ without", Unit: report.Share},
			{Name: "requests / CPU-s with", Unit: report.PerSecond},
			{Name: "without", Unit: report.PerSecond},
			{Name: "p99 µs with", Unit: report.Microseconds, Better: report.Lower},
			{Name: "without", Unit: report.Microseconds, Better: report.Lower},
		},
		Rows: t.Rows(names),
	}, nil
}

// plaintext is the request to web servers, and its answer.
var plaintext = load.Plan{Path: peers.Path, Body: peers.Body}

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
