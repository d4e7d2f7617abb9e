package relaybench_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle/cmd/spindle/relaybench"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/report"
)

func TestMain(m *testing.M) { leak.Main(m) }

// figures measures, and checks that every figure is there. Their values are for a quiet machine.
func figures(t *testing.T, measure func(ctx context.Context, rounds, n int) ([]report.Section, error), rounds, n int, keys ...string) []report.Section {
	t.Helper()
	tables, err := measure(t.Context(), rounds, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report.Markdown(tables))
	found := report.Flat(tables)
	for _, key := range keys {
		if found[key] <= 0 {
			t.Errorf("%s is %v", key, found[key])
		}
	}
	return tables
}

func TestCalls(t *testing.T) {
	figures(t, relaybench.MeasureCalls, 5, 200, "call_ns", "go_channel_ns", "loop_wake_ns", "call_channel_ratio", "calls_per_s")
}

// TestHealth: with workers that are all blocked, the web plane answers as before. A factor of
// 20 tells a web plane that waits for its workers, 20 ms for each request, from noise. The
// test compares medians, because on a busy machine the 99th percentiles are those of the
// system's scheduler.
func TestHealth(t *testing.T) {
	tables := figures(t, relaybench.MeasureHealth, 3, 100, "health_idle_p99_ns", "health_saturated_p99_ns", "health_p99_ratio")
	p50 := func(row int) float64 { return report.SpreadOf(tables[0].Rows[row].Figures[1]).Median }
	if blocked, idle := p50(0), p50(1); blocked > 20*idle {
		t.Errorf("%v ns with blocked workers, %v with idle ones", blocked, idle)
	}
}

func TestWaiters(t *testing.T) {
	figures(t, relaybench.MeasureWaiters, 1, 2000, "waiters", "waiter_bytes", "cancel_all_ms", "cancel_streams_ms")
}
