//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle/bench/report"
)

// A benchmark fills one or more sections of the report.
type benchmark struct {
	name   string
	about  string
	speaks string // selects its servers; see variant
	run    func(*harness) ([]report.Section, error)
}

var benchmarks = []benchmark{
	{"echo", "200 connections, one message of 64 bytes in flight on each", "", runEcho},
	{"echo-two", "echo with two loops on two cores", echoOnTwo, runEchoTwo},
	{"pipeline", "the same with 16 messages in flight on each", "", runPipeline},
	{"memory", "bytes of an idle connection: slope from 3,000 to 15,000", "", runMemory},
	{"idle10k", "throughput kept when 10,000 idle connections are added", "", runIdle},
	{"http", "GET over 64 keep-alive connections", inHTTP, runHTTP},
	{"http-pipeline", "the same with 16 requests in flight on each", inHTTP, runHTTPPipeline},
	{"http-memory", "bytes of an idle keep-alive connection", inHTTP, runHTTPMemory},
	{"slowloris", "throughput kept when 5,000 clients never finish their header", inHTTP, runSlowloris},
	{"ws", "echo of WebSocket messages of 64 bytes over 200 connections", inWebSocket, runWS},
	{"ws-memory", "bytes of an idle WebSocket", inWebSocket, runWSMemory},
	{"callbacks", "callbacks and turns of a loop, against other runtimes", "", runCallbacks},
	{"tasks", "switches, starts and channels of tasks, against Go's", "", runTasks},
	{"timers", "timers added and cancelled, added and fired", "", runTimers},
}

func benchmarkNames() []string {
	var names []string
	for _, m := range benchmarks {
		names = append(names, m.name)
	}
	return names
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
		if !slices.Contains(o.benchmarks, m.name) {
			continue
		}
		if !h.hasServersFor(m) {
			h.logf("%s: left out: none of --servers speaks %s", m.name, cmp.Or(m.speaks, "echo"))
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
	text := fmt.Sprintf("# Spindle and its peers\n\n%s\n\n%s", conditions(o), report.Markdown(sections))
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
