package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
)

// benchmark measures one or more figures.
type benchmark struct {
	name    string
	about   string // for --help
	figures []figure
	series  int // of rounds, for the progress bar
	run     func(ctx context.Context, s *session) error
}

// figure is one number that a benchmark measures. Its key is for programs and never changes;
// the other fields are its row in the printed table.
type figure struct {
	key    string
	what   string // "" has no row: it is in the remark of another figure
	unit   unit
	remark string // $key stands for a figure
}

var benchmarks = []benchmark{
	{
		"callbacks", "callbacks that CallSoon queues by the thousand",
		[]figure{{"callbacks_per_s", "callbacks queued and run", perSecond, ""}},
		1, benchCallbacks,
	}, {
		"turns", "a callback that queues itself again, one turn each time",
		[]figure{{"turns_per_s", "turns of one callback", perSecond, ""}},
		1, benchTurns,
	}, {
		"timers", "timers set and cancelled, and set and fired, beside Go's; alone and among a million",
		[]figure{
			{"timer_cancel_per_s", "timers set and cancelled", perSecond, "$timer_cancel_ratio Go's AfterFunc and Stop ($go_timer_cancel_per_s)"},
			{"timer_fire_per_s", "timers set and fired", perSecond, "$timer_fire_ratio Go's AfterFunc ($go_timer_fire_per_s)"},
			{"go_timer_cancel_per_s", "", perSecond, ""},
			{"go_timer_fire_per_s", "", perSecond, ""},
			{"timer_cancel_ratio", "", times, ""},
			{"timer_fire_ratio", "", times, ""},
			{"timer_cancel_million_per_s", "timers set and cancelled", perSecond, "with $timers others pending"},
			{"timer_fire_million_per_s", "timers set and fired", perSecond, "with $timers others pending"},
			{"timer_million_ns", "one timer replaced", nanoseconds, "among $timers pending, any of them"},
		},
		7, benchTimers,
	}, {
		"post", "callbacks that other goroutines post to a running loop",
		[]figure{
			{"post_1_per_s", "callbacks posted and run", perSecond, "from one goroutine"},
			{"post_4_per_s", "callbacks posted and run", perSecond, "from four goroutines"},
		},
		2, benchPost,
	}, {
		"ready", "time from a byte written by another thread to the callback of a sleeping loop",
		[]figure{
			{"ready_p50_us", "from write to callback", microseconds, "median"},
			{"ready_p99_us", "from write to callback", microseconds, "99th percentile"},
		},
		1, benchReady,
	}, {
		"sleep", "duration of a task's sleep of 1 ms, beside Go's time.Sleep",
		[]figure{
			{"sleep_1ms_us", "a sleep of 1 ms", microseconds, "Go's time.Sleep: $go_sleep_1ms_us"},
			{"go_sleep_1ms_us", "", microseconds, ""},
		},
		1, benchSleep,
	}, {
		"idle", "CPU time and wake-ups of a process with an idle loop",
		[]figure{
			{"idle_cpu_ms", "CPU time of an idle loop", milliseconds, "over $idle"},
			{"idle_wakeups", "wake-ups of an idle loop", count, "over $idle"},
		},
		1, benchIdle,
	}, {
		"switch", "two tasks that yield to each other, beside a bare iter.Pull round trip",
		[]figure{
			{"switch_ns", "a task switch", nanoseconds, "a bare iter.Pull round trip: $pull_ns"},
			{"pull_ns", "", nanoseconds, ""},
		},
		1, benchSwitch,
	}, {
		"spawn", "tasks started and finished one by one, beside goroutines; memory of a waiting task",
		[]figure{
			{"spawn_ns", "a task started and finished", nanoseconds, "a goroutine: $goroutine_ns"},
			{"goroutine_ns", "", nanoseconds, ""},
			{"parked_bytes", "memory of a waiting task", bytesOf, ""},
		},
		1, benchSpawn,
	}, {
		"gather", "tasks gathered ten at a time, beside goroutines and a WaitGroup",
		[]figure{
			{"gather_ns", "a task gathered", nanoseconds, "a goroutine: $go_gather_ns"},
			{"go_gather_ns", "", nanoseconds, ""},
		},
		1, benchGather,
	}, {
		"channel", "a value sent to a task and one back, and values through a buffer of 64, beside Go's channels",
		[]figure{
			{"channel_ns", "a value there and back", nanoseconds, "between goroutines: $go_channel_ns"},
			{"go_channel_ns", "", nanoseconds, ""},
			{"channel_buffered_ns", "a value through a buffer", nanoseconds, "between goroutines: $go_channel_buffered_ns"},
			{"go_channel_buffered_ns", "", nanoseconds, ""},
		},
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

Rates are medians of several rounds. Close other programs first, because they share
the processor. The benchmarks:

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
	s := &session{effort: wholeRun, found: map[string]float64{}}
	if *quick {
		s.effort = quickRun
	}
	if err := s.measure(ctx, chosen, errs); err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(s.found)
	}
	return s.table(chosen, out)
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
		switch {
		case strings.HasPrefix(name, "-"):
			return nil, fmt.Errorf("flag %s must come before the names", name)
		case !slices.Contains(known, name):
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
	found map[string]float64 // by key
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

// median calls measure in each round and sets key to the median.
func (s *session) median(ctx context.Context, key string, measure func() (float64, error)) error {
	var all []float64
	for range s.rounds {
		if err := s.round(ctx); err != nil {
			return err
		}
		one, err := measure()
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	s.set(key, percentile(all, 50))
	return nil
}

func (s *session) set(key string, value float64) { s.found[key] = roundFigure(value) }

// table prints the results as a table.
func (s *session) table(chosen []benchmark, out io.Writer) error {
	units := map[string]unit{}
	for _, m := range chosen {
		for _, f := range m.figures {
			units[f.key] = f.unit
		}
	}
	expand := func(key string) string {
		switch key {
		case "timers":
			return numbers.Thousands(s.timers)
		case "idle":
			return fmt.Sprintf("%g s", s.idle.Seconds())
		}
		return units[key](s.found[key])
	}
	var rows [][3]string
	var wide [2]int
	for _, m := range chosen {
		for _, f := range m.figures {
			if f.what == "" {
				continue
			}
			row := [3]string{f.what, expand(f.key), os.Expand(f.remark, expand)}
			rows = append(rows, row)
			for i := range wide {
				wide[i] = max(wide[i], utf8.RuneCountInString(row[i]))
			}
		}
	}
	var b strings.Builder
	for _, r := range rows {
		line := fmt.Sprintf("%-*s  %*s  %s", wide[0], r[0], wide[1], r[1], r[2])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
