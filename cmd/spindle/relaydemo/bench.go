package relaydemo

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/spindleloop/spindle/cmd/spindle/relaybench"
	"github.com/spindleloop/spindle/internal/report"
)

// BenchOptions configure Bench.
type BenchOptions struct {
	JSON  bool // print JSON instead of tables
	Quick bool // measure for a moment only

	// NATS, if set, measures calls on a broker.
	NATS func(ctx context.Context, quick bool) ([]report.Section, error)
}

// Bench measures calls and prints the figures.
func Bench(ctx context.Context, out io.Writer, o BenchOptions) error {
	rounds, each, healthRounds, healthEach, waiterRounds, waiters := 200, 2000, 9, 1000, 5, 100_000
	if o.Quick {
		rounds, each, healthRounds, healthEach, waiterRounds, waiters = 3, 100, 1, 20, 1, 1000
	}
	var onNATS []report.Section
	if o.NATS != nil { // first, so that a server that is down is reported at once
		var err error
		if onNATS, err = o.NATS(ctx, o.Quick); err != nil {
			return err
		}
	}
	calls, err := relaybench.MeasureCalls(ctx, rounds, each)
	if err != nil {
		return err
	}
	health, err := relaybench.MeasureHealth(ctx, healthRounds, healthEach)
	if err != nil {
		return err
	}
	waiting, err := relaybench.MeasureWaiters(ctx, waiterRounds, waiters)
	if err != nil {
		return err
	}
	tables := slices.Concat(calls, health, waiting, onNATS)
	if o.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report.Flat(tables))
	}
	_, err = io.WriteString(out, report.Markdown(tables))
	return err
}
