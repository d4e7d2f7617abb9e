package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/short"
)

// keys are the names that programs rely on. Names may only be added.
var keys = map[string][]string{
	"callbacks": {"callbacks_per_s"},
	"turns":     {"turns_per_s"},
	"timers": {
		"timer_cancel_per_s", "timer_fire_per_s", "go_timer_cancel_per_s", "go_timer_fire_per_s",
		"timer_cancel_ratio", "timer_fire_ratio",
		"timer_cancel_million_per_s", "timer_fire_million_per_s", "timer_million_ns",
	},
	"post":    {"post_1_per_s", "post_4_per_s"},
	"ready":   {"ready_p50_us", "ready_p99_us"},
	"sleep":   {"sleep_1ms_us", "go_sleep_1ms_us"},
	"idle":    {"idle_cpu_ms", "idle_wakeups"},
	"switch":  {"switch_ns", "pull_ns"},
	"spawn":   {"spawn_ns", "goroutine_ns", "parked_bytes"},
	"gather":  {"gather_ns", "go_gather_ns"},
	"channel": {"channel_ns", "go_channel_ns", "channel_buffered_ns", "go_channel_buffered_ns"},
}

func TestBenchKeysAreStable(t *testing.T) {
	got := map[string][]string{}
	for _, m := range benchmarks {
		for _, f := range m.figures {
			got[m.name] = append(got[m.name], f.key)
		}
	}
	if !maps.EqualFunc(got, keys, slices.Equal) {
		t.Errorf("the table has %v; want %v", got, keys)
	}
}

func TestBenchPrintsJSON(t *testing.T) {
	got := run(t.Context(), "bench", "--json", "--quick", "turns", "callbacks", "turns")
	if got.code != 0 || got.errs != "" {
		t.Fatalf("exit code %d and on stderr %q; want 0 and nothing", got.code, got.errs)
	}
	var figures map[string]float64
	in := json.NewDecoder(strings.NewReader(got.out))
	if err := in.Decode(&figures); err != nil {
		t.Fatalf("%v in %s", err, got.out)
	}
	if _, err := in.Token(); err != io.EOF {
		t.Errorf("more than an object on stdout: %s", got.out)
	}
	want := []string{"callbacks_per_s", "turns_per_s"}
	if have := slices.Sorted(maps.Keys(figures)); !slices.Equal(have, want) {
		t.Errorf("keys %v; want %v", have, want)
	}
	for key, value := range figures {
		if value <= 0 {
			t.Errorf("%s is %v", key, value)
		}
	}
}

// least is the smallest effort with which a benchmark works.
var least = effort{
	rounds: 2, callbacks: 2 * batch, turns: batch, cancels: 2 * batch, timers: 2 * batch, replaced: 2 * batch,
	posts: 2 * batch, bytes: 5, sleeps: 3, idle: 10 * time.Millisecond,
	switches: batch, spawns: batch, parked: 10, messages: batch,
}

func TestEveryBenchmarkFindsItsFigures(t *testing.T) {
	for _, m := range benchmarks {
		t.Run(m.name, func(t *testing.T) {
			if testing.Short() && m.name == "idle" {
				t.Skip("with -short: the windows of the measurement are fixed")
			}
			s := &session{effort: least, found: map[string]float64{}}
			if err := s.measure(t.Context(), []benchmark{m}, io.Discard); err != nil {
				t.Fatal(err)
			}
			have, want := slices.Sorted(maps.Keys(s.found)), slices.Sorted(slices.Values(keys[m.name]))
			if !slices.Equal(have, want) {
				t.Errorf("it finds %v; want %v", have, want)
			}
			for key, value := range s.found {
				if value < 0 || value == 0 && m.name != "idle" {
					t.Errorf("%s is %v", key, value)
				}
			}
			if most := m.series * least.rounds; s.bar.at > most || m.name != "idle" && s.bar.at != most {
				t.Errorf("it takes %d steps; the progress bar has %d for it", s.bar.at, most)
			}
		})
	}
}

// A sleep of 1 ms is never shorter than that.
func TestSleepIsNotShort(t *testing.T) {
	s := &session{effort: least, found: map[string]float64{}}
	if err := benchSleep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if took := s.found["sleep_1ms_us"]; took < 1000 {
		t.Errorf("a sleep of 1 ms took %v µs", took)
	}
}

func TestBenchTable(t *testing.T) {
	s := &session{effort: wholeRun, found: map[string]float64{
		"callbacks_per_s": 71_234_567, "turns_per_s": 987_654,
		"timer_cancel_per_s": 14_230_000, "go_timer_cancel_per_s": 3_529_000, "timer_cancel_ratio": 4.03,
		"timer_fire_per_s": 3_720_000, "go_timer_fire_per_s": 486_000, "timer_fire_ratio": 7.6,
		"timer_cancel_million_per_s": 9_690_000, "timer_fire_million_per_s": 3_220_000, "timer_million_ns": 301.4,
		"post_1_per_s": 16_100_000, "post_4_per_s": 10_700_000,
		"ready_p50_us": 16.12, "ready_p99_us": 164.9,
		"sleep_1ms_us": 1063, "go_sleep_1ms_us": 1127,
		"idle_cpu_ms": 0, "idle_wakeups": 1234,
		"switch_ns": 171.2, "pull_ns": 160, "spawn_ns": 242, "goroutine_ns": 595, "parked_bytes": 3171,
		"gather_ns": 300, "go_gather_ns": 400,
		"channel_ns": 263, "go_channel_ns": 498, "channel_buffered_ns": 16.4, "go_channel_buffered_ns": 54.2,
	}}
	const want = `
callbacks queued and run     71.2 M/s
turns of one callback         988 k/s
timers set and cancelled     14.2 M/s  4.0 × Go's AfterFunc and Stop (3.53 M/s)
timers set and fired         3.72 M/s  7.6 × Go's AfterFunc (486 k/s)
timers set and cancelled     9.69 M/s  with 1,000,000 others pending
timers set and fired         3.22 M/s  with 1,000,000 others pending
one timer replaced             301 ns  among 1,000,000 pending, any of them
callbacks posted and run     16.1 M/s  from one goroutine
callbacks posted and run     10.7 M/s  from four goroutines
from write to callback        16.1 µs  median
from write to callback         165 µs  99th percentile
a sleep of 1 ms               1.06 ms  Go's time.Sleep: 1.13 ms
CPU time of an idle loop       0.0 ms  over 5 s
wake-ups of an idle loop        1,234  over 5 s
a task switch                  171 ns  a bare iter.Pull round trip: 160 ns
a task started and finished    242 ns  a goroutine: 595 ns
memory of a waiting task      3,171 B
a task gathered                300 ns  a goroutine: 400 ns
a value there and back         263 ns  between goroutines: 498 ns
a value through a buffer      16.4 ns  between goroutines: 54.2 ns
`
	var got strings.Builder
	if err := s.table(benchmarks, &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want[1:] {
		t.Errorf("got\n%s\nwant%s", got.String(), want)
	}
}

func TestBenchIsInterrupted(t *testing.T) {
	all := benchmarks
	if !short.Full() {
		all = all[:2] // each takes until the end of a round
	}
	for _, m := range all {
		before, cancel := context.WithCancel(t.Context())
		cancel()
		during, done := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer done()
		for _, ctx := range []context.Context{before, during} {
			got := run(ctx, "bench", m.name)
			want := "spindle bench: interrupted while measuring " + m.name + "\n"
			if got.code != 2 || got.out != "" || got.errs != want {
				t.Errorf("got %+v; want exit code 2 and %q", got, want)
			}
		}
	}
}
