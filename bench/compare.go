//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/internal/report"
)

// A benchmark fills one or more sections of the report.
type benchmark struct {
	name   string
	group  string // several that have a table of all their ratios
	about  string
	speaks []string // selects its servers; see variant
	byName bool     // it runs only if it is named
	run    func(*harness) ([]report.Section, error)
}

var benchmarks = slices.Concat([]benchmark{
	closed("echo", "200 connections, one message of 64 bytes in flight on each", inEcho, "Echo", echoNote,
		func(o options) load.Plan { return load.Plan{Conns: o.conns, Depth: 1} }),
	closed("echo-two", "echo with two loops on two cores", echoOnTwo, "Echo on two loops",
		"%d connections, %d in flight on each, %d bytes, two loops on two cores, one core shared with the load generator.",
		func(o options) load.Plan { return load.Plan{Conns: o.conns, Depth: 1} }),
	closed("pipeline", "the same with 16 messages in flight on each", inEcho, "Pipelined echo", echoNote,
		func(o options) load.Plan { return load.Plan{Conns: o.conns, Depth: o.depth} }),
	{name: "idle10k", about: "throughput kept when 10,000 idle connections are added", speaks: []string{inEcho}, run: runIdle},
	closed("http", "GET over 64 keep-alive connections", inHTTP, "HTTP", webNote,
		func(o options) load.Plan { return webPlan(o, 1) }),
	closed("http-pipeline", "the same with 16 requests in flight on each", inHTTP, "Pipelined HTTP", webNote,
		func(o options) load.Plan { return webPlan(o, o.depth) }),
	{name: "slowloris", about: "throughput kept when 5,000 clients never finish their header", speaks: []string{inHTTP}, run: runSlowloris},
	closed("ws", "echo of WebSocket messages of 64 bytes over 200 connections", inWebSocket, "WebSocket echo",
		"%d connections, %d message in flight on each, %d bytes, one server core.",
		func(o options) load.Plan { return load.Plan{WebSocket: true, Conns: o.conns, Depth: 1} }),
	{name: "callbacks", about: "callbacks and turns of a loop, against other runtimes", run: runCallbacks},
	{name: "tasks", about: "switches, starts and channels of tasks, against Go's", run: runTasks},
	{name: "timers", about: "timers added and cancelled, added and fired", run: runTimers},
}, memoryBenchmarks(), muxedBenchmarks(), []benchmark{
	{name: "attacks", byName: true, about: "what a client notices of attacks on HTTP/2", speaks: []string{inHTTP2}, run: runAttacks},
	{name: "many", byName: true, about: "50,000 connections, to servers in three processes", speaks: []string{inEcho}, run: runMany},
	{name: "walks", byName: true, about: "functions that run for one byte, request or call", run: runWalks},
}, pythonBenchmarks())

const (
	echoNote = "%d connections, %d in flight on each, %d bytes, one server core; latency is of a whole burst."
	webNote  = "%d keep-alive connections, %d requests in flight on each, %d bytes of body, one server core; latency is of a whole burst."
)

func webPlan(o options, depth int) load.Plan {
	plan := plaintext
	plan.Conns, plan.Depth = o.webConns, depth
	return plan
}

func benchmarkNames() []string {
	var names []string
	for _, m := range benchmarks {
		names = append(names, m.name)
		if m.group != "" && !slices.Contains(names, m.group) {
			names = append(names, m.group)
		}
	}
	return names
}

// chosen reports whether m is among the names, or in a group that is. Without names it is whether it runs by default.
func (m benchmark) chosen(names []string) bool {
	if len(names) == 0 {
		return !m.byName
	}
	return slices.Contains(names, m.name) || m.group != "" && slices.Contains(names, m.group)
}

// compare runs the chosen benchmarks, prints the tables and writes the files.
func compare(ctx context.Context, o options, stdout, progress io.Writer) error {
	h, err := newHarness(ctx, o, progress)
	if err != nil {
		return err
	}
	defer h.close()
	var sections []report.Section
	for _, m := range benchmarks {
		if !m.chosen(o.benchmarks) {
			continue
		}
		if !h.hasServersFor(m) {
			h.logf("%s: left out: none of --servers speaks %s", m.name, strings.Join(m.speaks, ", "))
			continue
		}
		done, err := m.run(h)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if errors.Is(err, errNothing) {
			h.failures = append(h.failures, err.Error())
			continue
		}
		if err != nil {
			return err
		}
		for i := range done {
			done[i].Group = m.group
		}
		sections = append(sections, done...)
	}
	if len(sections) > 0 {
		if err := publish(o, sections, stdout, progress); err != nil {
			return err
		}
	}
	if n := len(h.failures); n > 0 {
		return fmt.Errorf("%d failed, the first: %s", n, h.failures[0])
	}
	return nil
}

// publish prints the tables and writes results.md, results.svg and results.json, which
// has the figures of every round.
func publish(o options, sections []report.Section, stdout, progress io.Writer) error {
	text := fmt.Sprintf("# Spindle and its peers\n\n%s\n\n%s", conditions(o), report.Markdown(sections)+matrices(sections))
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(sections, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	files := []struct {
		name string
		data []byte
	}{
		{"results.md", []byte(text)},
		{"results.svg", []byte(report.Chart(sections))},
		{"results.json", append(raw, '\n')},
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(o.out, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(progress, "written: results.md, results.svg and results.json in %s\n", o.out)
	return nil
}

// matrices returns a table of all ratios for each group.
func matrices(sections []report.Section) (text string) {
	groups := map[string][]report.Section{}
	for _, s := range sections {
		groups[s.Group] = append(groups[s.Group], s)
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if table := report.Matrix("All of "+group, groups[group]); group != "" && table != "" {
			text += "\n" + table
		}
	}
	return text
}

// conditions returns a sentence about the conditions of the run.
func conditions(o options) string {
	kernel := "Linux"
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel += " " + unix.ByteSliceToString(name.Release[:])
	}
	rounds := "1 round"
	if o.rounds > 1 {
		rounds = fmt.Sprintf("%d interleaved rounds", o.rounds)
	}
	s := fmt.Sprintf("Medians of %s of %v on %d cores, %s, %s.",
		rounds, o.window, runtime.NumCPU(), kernel, runtime.Version())
	if o.smoke {
		s += " A smoke run: its figures are meaningless."
	}
	return s
}

// count formats a number of connections.
func count(n int) string { return report.Thousands(float64(n)) }
