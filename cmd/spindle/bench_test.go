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

	"github.com/spindleloop/spindle/internal/report"
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
		for _, t := range m.tables {
			for _, r := range t.Rows {
				for _, key := range []string{r.Key, r.RatioKey} {
					if key != "" {
						got[m.name] = append(got[m.name], key)
					}
				}
			}
		}
		slices.Sort(got[m.name])
		slices.Sort(keys[m.name])
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
			s := &session{effort: least}
			if err := s.measure(t.Context(), []benchmark{m}, io.Discard); err != nil {
				t.Fatal(err)
			}
			found := report.Flat(s.tables([]benchmark{m}))
			have, want := slices.Sorted(maps.Keys(found)), slices.Sorted(slices.Values(keys[m.name]))
			if !slices.Equal(have, want) {
				t.Errorf("it finds %v; want %v", have, want)
			}
			for key, value := range found {
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
	s := &session{effort: least}
	if err := benchSleep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if took := report.Flat(s.tables(benchmarks))["sleep_1ms_us"]; took < 1000 {
		t.Errorf("a sleep of 1 ms took %v µs", took)
	}
}

func TestBenchTable(t *testing.T) {
	s := &session{}
	for _, round := range []float64{1, 2, 4} { // the machine is slower and slower, and the ratio is the same
		s.add("timer_cancel_per_s", 14.23e6/round)
		s.add("go_timer_cancel_per_s", 3.53e6/round)
		s.add("timer_cancel_million_per_s", 9.69e6/round)
	}
	const want = `## Timers set and cancelled

| server                            | timers / s |      min–max | spindle ÷ it | quartiles |   min–max |
|-----------------------------------|-----------:|-------------:|-------------:|----------:|----------:|
| **spindle**                       |      7.12M | 3.56M–14.23M |              |           |           |
| spindle, with many others pending |      4.84M |  2.42M–9.69M |         1.47 | 1.47–1.47 | 1.47–1.47 |
| Go's AfterFunc and Stop           |      1.76M | 882.5k–3.53M |         4.03 | 4.03–4.03 | 4.03–4.03 |
`
	got := report.Markdown(s.tables(benchmarks)[2:3])
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
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
