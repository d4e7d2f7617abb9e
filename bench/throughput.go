//go:build linux

package main

import (
	"fmt"
	"slices"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/bench/report"
)

// busyShare is the utilisation below which a process counts as not saturated.
const busyShare = 0.85

// A team is all servers of a benchmark, running.
type team struct {
	names   []string
	members map[string]*contender
	servers map[string]*proc.Server
}

// startTeam starts every contender. One that does not start is recorded as
// failed; none at all is an error.
func (h *harness) startTeam(benchmark, language string, bufferBytes int) (*team, error) {
	t := &team{members: map[string]*contender{}, servers: map[string]*proc.Server{}}
	for _, c := range h.speaking(language) {
		s, err := h.start(c, bufferBytes)
		if err != nil {
			h.fail(benchmark, c.name, err)
			continue
		}
		t.names = append(t.names, c.name)
		t.members[c.name], t.servers[c.name] = c, s
	}
	if len(t.names) == 0 {
		return nil, fmt.Errorf("%s: %w", benchmark, errNothing)
	}
	return t, nil
}

func (t *team) stop() {
	for _, s := range t.servers {
		s.Stop()
	}
}

func runEcho(h *harness) ([]report.Section, error) {
	return h.throughput("echo", "Echo", 1)
}

func runPipeline(h *harness) ([]report.Section, error) {
	return h.throughput("pipeline", "Pipelined echo", h.o.depth)
}

func runEchoTwo(h *harness) ([]report.Section, error) {
	s, err := h.answers("echo-two", inPairs, load.Plan{Conns: h.o.conns, Depth: 1})
	if err != nil {
		return nil, err
	}
	s.Title, s.Reference = "Echo on two loops", "spindle-protocol-2"
	s.Note = fmt.Sprintf("%d connections, %d bytes, two loops on two cores, one of which the load generator needs too.", h.o.conns, h.o.size)
	return []report.Section{s}, nil
}

// throughput measures closed-loop echo with depth messages in flight on each
// connection.
func (h *harness) throughput(name, title string, depth int) ([]report.Section, error) {
	s, err := h.answers(name, "", load.Plan{Conns: h.o.conns, Depth: depth})
	if err != nil {
		return nil, err
	}
	s.Title, s.Reference = title, h.o.reference
	s.Note = fmt.Sprintf("%d connections, %d in flight on each, %d bytes, one server core; latency is of a whole burst.",
		h.o.conns, depth, h.o.size)
	return []report.Section{s}, nil
}

// answers measures how many messages the servers of a language answer.
func (h *harness) answers(name, language string, plan load.Plan) (report.Section, error) {
	team, err := h.startTeam(name, language, h.o.size*plan.Depth)
	if err != nil {
		return report.Section{}, err
	}
	defer team.stop()
	var t tally
	plan.Warmup, plan.Window = h.o.warmup, h.o.window
	names, err := h.rounds(name, team.names, func(server string, _ int) error {
		r, err := h.load(team.servers[server], plan)
		if err != nil {
			return err
		}
		t.add(server, team.members[server].ours, r.PerCPUSecond(), r.PerSecond(),
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
		Rows: t.ordered(names),
	}
	for i := range s.Rows {
		figures := s.Rows[i].Figures
		s.Rows[i].Mark = idleMark(report.SpreadOf(figures[4]).Median, report.SpreadOf(figures[5]).Median)
	}
	return s, nil
}

// idleMark is the caveat for a server that was idle for part of the window.
func idleMark(server, load float64) string {
	switch {
	case server >= busyShare:
		return ""
	case load >= busyShare:
		return fmt.Sprintf("only %.0f %% busy: the load generator was the limit", server*100)
	}
	// Servers with several threads sleep although requests wait; so does any
	// server whose core another process uses.
	return fmt.Sprintf("only %.0f %% busy, the load generator %.0f %%: it waited for itself, or for its core", server*100, load*100)
}

// runIdle compares each server with itself: the same load with and without
// many idle connections beside it.
func runIdle(h *harness) ([]report.Section, error) {
	const name = "idle10k"
	team, err := h.startTeam(name, "", h.o.size)
	if err != nil {
		return nil, err
	}
	defer team.stop()
	var t tally
	alone := load.Plan{Conns: h.o.active, Depth: 1, Warmup: h.o.warmup, Window: h.o.window}
	crowded := alone
	crowded.Idle = h.o.idle
	names, err := h.rounds(name, team.names, func(server string, round int) error {
		// Which comes first alternates: a server's heap is not the same
		// before its first ten thousand connections and after.
		plans := []load.Plan{alone, crowded}
		if round%2 == 1 {
			slices.Reverse(plans)
		}
		var with, without load.Result
		for _, p := range plans {
			r, err := h.load(team.servers[server], p)
			if err != nil {
				return err
			}
			if p.Idle > 0 {
				with = r
			} else {
				without = r
			}
		}
		t.add(server, team.members[server].ours, with.PerCPUSecond()/without.PerCPUSecond(),
			with.PerCPUSecond(), without.PerCPUSecond(), with.P99.Seconds()*1e6, without.P99.Seconds()*1e6)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []report.Section{{
		Name:  name,
		Title: fmt.Sprintf("Throughput kept with %s idle connections", count(h.o.idle)),
		Note: fmt.Sprintf("%d busy connections; each server against itself without the idle ones, in the same round.",
			h.o.active),
		Columns: []report.Column{
			{Name: "with ÷ without", Unit: report.Share},
			{Name: "requests / CPU-s with", Unit: report.PerSecond},
			{Name: "without", Unit: report.PerSecond},
			{Name: "p99 µs with", Unit: report.Microseconds, Better: report.Lower},
			{Name: "without", Unit: report.Microseconds, Better: report.Lower},
		},
		Rows: t.ordered(names),
	}}, nil
}
