package relaydemo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/relaybench"
)

// BenchOptions configure Bench.
type BenchOptions struct {
	JSON  bool // print JSON instead of a table
	Quick bool // measure for a moment only

	// NATS, if set, measures calls on a broker.
	NATS func(ctx context.Context, quick bool) ([]Figure, error)
}

// Figure is a number that Bench prints.
type Figure struct {
	Key   string // for programs; it never changes
	Value float64
	What  string // for people
}

// Bench measures calls and prints the figures.
func Bench(ctx context.Context, out io.Writer, o BenchOptions) error {
	rounds, each, healthRounds, healthEach, waiterRounds, waiters := 200, 2000, 9, 1000, 5, 100_000
	if o.Quick {
		rounds, each, healthRounds, healthEach, waiterRounds, waiters = 3, 100, 1, 20, 1, 1000
	}
	var onNATS []Figure
	if o.NATS != nil { // first, so that a server that is down is reported at once
		var err error
		if onNATS, err = o.NATS(ctx, o.Quick); err != nil {
			return err
		}
	}
	f, err := relaybench.MeasureCalls(ctx, rounds, each)
	if err != nil {
		return err
	}
	h, err := relaybench.MeasureHealth(ctx, healthRounds, healthEach)
	if err != nil {
		return err
	}
	w, err := relaybench.MeasureWaiters(ctx, waiterRounds, waiters)
	if err != nil {
		return err
	}
	milliseconds := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	figures := []Figure{
		{"call_ns", f.CallNS, "a call from a task to a goroutine and back, ns"},
		{"go_channel_ns", f.ChannelNS, "a value to a goroutine and one back by channels, ns"},
		{"call_channel_ratio", f.Ratio, "a call's time over that of channels"},
		{"calls_per_s", f.PerSecond, "calls in a second with 64 in flight"},
		{"health_idle_p99_ns", float64(h.IdleP99), "/health with idle workers, 99th percentile, ns"},
		{"health_saturated_p99_ns", float64(h.SaturatedP99), "/health while all workers are blocked, likewise"},
		{"health_p99_ratio", h.Ratio, "the second over the first"},
		{"waiters", float64(waiters), "calls that wait at the same time, for these figures:"},
		{"waiter_bytes", w.Bytes, "memory of a waiter, with its request and stream"},
		{"cancel_all_ms", milliseconds(w.CancelTasks), "from the end of a scope until the calls of all its tasks have returned, ms"},
		{"cancel_streams_ms", milliseconds(w.CancelStreams), "to close as many streams, ms"},
	}
	figures = append(figures, onNATS...)
	if o.JSON {
		all := map[string]float64{}
		for _, f := range figures {
			all[f.Key] = f.Value
		}
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range figures {
		value := fmt.Sprintf("%.0f", f.Value)
		if f.Value < 100 {
			value = fmt.Sprintf("%.2f", f.Value)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Key, value, f.What)
	}
	return table.Flush()
}
