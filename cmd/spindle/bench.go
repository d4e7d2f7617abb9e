package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/report"
)

// benchmark measures the rows of some tables.
type benchmark struct {
	name   string
	about  string           // for --help
	tables []report.Section // without figures; the keys of rows are for programs, and never change
	series int              // of rounds, for the progress bar
	run    func(ctx context.Context, s *session) error
}

// table returns a table. The first row is the one that others are compared with.
func table(title, column string, unit report.Unit, rows ...report.Row) []report.Section {
	s := report.Section{Title: title, Columns: []report.Column{{Name: column, Unit: unit}}, Rows: rows}
	if unit != report.PerSecond {
		s.Columns[0].Better = report.Lower
	}
	if rows[0].Ours && len(rows) > 1 {
		s.Reference = rows[0].Name
	}
	return []report.Section{s}
}

// ours and other return rows of a table.
func ours(key string) report.Row        { return report.Row{Name: "spindle", Ours: true, Key: key} }
func other(name, key string) report.Row { return report.Row{Name: name, Key: key} }

var benchmarks = []benchmark{
	{
		"callbacks", "callbacks that CallSoon queues by the thousand",
		table("Callbacks queued and run", "callbacks / s", report.PerSecond, ours("callbacks_per_s")),
		1, benchCallbacks,
	}, {
		"turns", "a callback that queues itself again, one turn each time",
		table("Turns of one callback", "turns / s", report.PerSecond, ours("turns_per_s")),
		1, benchTurns,
	}, {
		"timers", "timers set and cancelled, and set and fired, beside Go's; alone and among a million",
		slices.Concat(
			table("Timers set and cancelled", "timers / s", report.PerSecond, ours("timer_cancel_per_s"),
				report.Row{Name: "Go's AfterFunc and Stop", Key: "go_timer_cancel_per_s", RatioKey: "timer_cancel_ratio"},
				other("spindle, with many others pending", "timer_cancel_million_per_s")),
			table("Timers set and fired", "timers / s", report.PerSecond, ours("timer_fire_per_s"),
				report.Row{Name: "Go's AfterFunc", Key: "go_timer_fire_per_s", RatioKey: "timer_fire_ratio"},
				other("spindle, with many others pending", "timer_fire_million_per_s")),
			table("A timer replaced, any of many pending", "ns", report.Number, ours("timer_million_ns")),
		),
		7, benchTimers,
	}, {
		"post", "callbacks that other goroutines post to a running loop",
		table("Callbacks posted and run", "callbacks / s", report.PerSecond,
			other("from one goroutine", "post_1_per_s"), other("from four goroutines", "post_4_per_s")),
		2, benchPost,
	}, {
		"ready", "time from a byte written by another thread to the callback of a sleeping loop",
		table("From a write to the callback", "µs", report.Number,
			other("median", "ready_p50_us"), other("99th percentile", "ready_p99_us")),
		1, benchReady,
	}, {
		"sleep", "duration of a task's sleep of 1 ms, beside Go's time.Sleep",
		table("A sleep of 1 ms", "µs", report.Number, ours("sleep_1ms_us"), other("Go's time.Sleep", "go_sleep_1ms_us")),
		1, benchSleep,
	}, {
		"idle", "CPU time and wake-ups of a process with an idle loop",
		slices.Concat(
			table("CPU time of an idle loop", "ms", report.Number, ours("idle_cpu_ms")),
			table("Wake-ups of an idle loop", "wake-ups", report.Bytes, ours("idle_wakeups")),
		),
		1, benchIdle,
	}, {
		"switch", "two tasks that yield to each other, beside a bare iter.Pull round trip",
		table("A task switch", "ns", report.Number, ours("switch_ns"), other("iter.Pull, there and back", "pull_ns")),
		1, benchSwitch,
	}, {
		"spawn", "tasks started and finished one by one, beside goroutines; memory of a waiting task",
		slices.Concat(
			table("A task started and finished", "ns", report.Number, ours("spawn_ns"), other("a goroutine", "goroutine_ns")),
			table("Memory of a waiting task", "bytes", report.Bytes, ours("parked_bytes")),
		),
		1, benchSpawn,
	}, {
		"gather", "tasks gathered ten at a time, beside goroutines and a WaitGroup",
		table("A task gathered", "ns", report.Number, ours("gather_ns"), other("a goroutine", "go_gather_ns")),
		1, benchGather,
	}, {
		"channel", "a value sent to a task and one back, and values through a buffer of 64, beside Go's channels",
		slices.Concat(
			table("A value there and one back", "ns", report.Number, ours("channel_ns"), other("between goroutines", "go_channel_ns")),
			table("A value through a buffer of 64", "ns", report.Number, ours("channel_buffered_ns"), other("between goroutines", "go_channel_buffered_ns")),
		),
		2, benchChannel,
	},
}

// effort is the size of a run. Counts are for each round, and multiples of batch.
type effort struct {
	rounds    int
	callbacks int
	turns     int
	cancels   int
	timers    int // that fire, and that stay pending
	replaced  int
	posts     int
	bytes     int // written to a sleeping loop
	sleeps    int // of 1 ms
	switches  int
	spawns    int
	parked    int
	messages  int
	idle      time.Duration
}

var (
	wholeRun = effort{
		rounds: 5, callbacks: 10e6, turns: 4e6, cancels: 1e6, timers: 1e6, replaced: 1e6,
		posts: 2e6, bytes: 600, sleeps: 100, idle: 5 * time.Second,
		switches: 2e6, spawns: 500e3, parked: 20e3, messages: 500e3,
	}
	quickRun = effort{
		rounds: 3, callbacks: 500e3, turns: 200e3, cancels: 100e3, timers: 100e3, replaced: 50e3,
		posts: 200e3, bytes: 50, sleeps: 20, idle: time.Second,
		switches: 100e3, spawns: 20e3, parked: 2e3, messages: 20e3,
	}
)

func benchHelp() string {
	var b strings.Builder
	b.WriteString(`
spindle bench [flags] [NAME ...] measures the loop on this machine: the named
benchmarks, or all of them.

  spindle bench                     all, in about half a minute
  spindle bench timers post         only these
  spindle bench --json > now.json   one flat JSON object of numbers

Figures are medians of several rounds, with their extremes. "A ÷ it" compares rounds of the
same time. Close other programs first, because they share the processor. The benchmarks:

`)
	for _, m := range benchmarks {
		fmt.Fprintf(&b, "  %-10s %s\n", m.name, m.about)
	}
	return b.String()
}

func runBench(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print one flat JSON object of numbers")
	quick := flags.Bool("quick", false, "run for a few seconds, with smaller counts and rougher figures")
	if err := parse(flags, benchHelp(), args, out); err != nil {
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	s := &session{effort: wholeRun}
	if *quick {
		s.effort = quickRun
	}
	if err := s.measure(ctx, chosen, errs); err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(report.Flat(s.tables(chosen)))
	}
	_, err = io.WriteString(out, report.Markdown(s.tables(chosen)))
	return err
}

// choose looks up benchmarks by name; no names mean all. The order is that of the table.
func choose(names []string) ([]benchmark, error) {
	if len(names) == 0 {
		return benchmarks, nil
	}
	known := make([]string, len(benchmarks))
	for i, m := range benchmarks {
		known[i] = m.name
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown benchmark %q (have %s)", name, strings.Join(known, ", "))
		}
	}
	var chosen []benchmark
	for _, m := range benchmarks {
		if slices.Contains(names, m.name) {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// session is one run of the command: its size and its results.
type session struct {
	effort
	found report.Tally // by key
	bar   progress
}

func (s *session) measure(ctx context.Context, chosen []benchmark, errs io.Writer) error {
	total := 0
	for _, m := range chosen {
		total += m.series * s.rounds
	}
	s.bar = newProgress(errs, total)
	defer s.bar.erase()
	for _, m := range chosen {
		s.bar.begin(m.name, m.series*s.rounds)
		err := m.run(ctx, s)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("interrupted while measuring %s", m.name)
		case err != nil:
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// round begins a round. It checks for an interrupt, and collects the garbage of the previous
// round, so that this round does not pay for it.
func (s *session) round(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.bar.step()
	runtime.GC()
	return nil
}

// each calls measure in each round, and adds its figure to those of key.
func (s *session) each(ctx context.Context, key string, measure func() (float64, error)) error {
	for range s.rounds {
		if err := s.round(ctx); err != nil {
			return err
		}
		one, err := measure()
		if err != nil {
			return err
		}
		s.add(key, one)
	}
	return nil
}

func (s *session) add(key string, value float64) { s.found.Add(key, false, value) }

// tables returns the tables of benchmarks with what was found.
func (s *session) tables(chosen []benchmark) (all []report.Section) {
	for _, m := range chosen {
		for _, t := range m.tables {
			t.Name, t.Rows = m.name, slices.Clone(t.Rows)
			s.found.Fill(t.Rows)
			all = append(all, t)
		}
	}
	return all
}
