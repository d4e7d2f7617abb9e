package relaybench_test

import (
	"testing"

	"github.com/spindleloop/spindle/cmd/spindle/relaybench"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestCalls: every figure is measured. Their values are for a quiet machine.
func TestCalls(t *testing.T) {
	f, err := relaybench.MeasureCalls(t.Context(), 5, 200)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
	if f.CallNS <= 0 || f.ChannelNS <= 0 || f.WakeNS <= 0 || f.Ratio <= 0 || f.PerSecond <= 0 {
		t.Errorf("%+v", f)
	}
}

// TestHealth: with workers that are all blocked, the web plane answers as before. A factor of
// 20 tells a web plane that waits for its workers, 20 ms for each request, from noise. The
// test compares medians, because on a busy machine the 99th percentiles are those of the
// system's scheduler.
func TestHealth(t *testing.T) {
	h, err := relaybench.MeasureHealth(t.Context(), 3, 100)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", h)
	if h.IdleP99 <= 0 || h.SaturatedP99 <= 0 || h.Ratio <= 0 || h.SaturatedP50 > 20*h.IdleP50 {
		t.Errorf("%+v", h)
	}
}

// TestWaiters: every figure is measured.
func TestWaiters(t *testing.T) {
	w, err := relaybench.MeasureWaiters(t.Context(), 1, 2000)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", w)
	if w.Bytes <= 0 || w.CancelStreams <= 0 || w.CancelTasks <= 0 {
		t.Errorf("%+v", w)
	}
}

// BenchmarkWaiters reports how long it takes to cancel 100,000 calls.
func BenchmarkWaiters(b *testing.B) {
	for b.Loop() {
		w, err := relaybench.MeasureWaiters(b.Context(), 3, 100_000)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(w.Bytes, "waiter-bytes")
		b.ReportMetric(w.CancelStreams.Seconds()*1e3, "streams-ms")
		b.ReportMetric(w.CancelTasks.Seconds()*1e3, "tasks-ms")
	}
}

// BenchmarkHealth reports how much longer /health takes while all workers are blocked.
func BenchmarkHealth(b *testing.B) {
	for b.Loop() {
		h, err := relaybench.MeasureHealth(b.Context(), 9, 1000)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(h.IdleP99.Nanoseconds()), "idle-p99-ns")
		b.ReportMetric(float64(h.SaturatedP99.Nanoseconds()), "saturated-p99-ns")
		b.ReportMetric(h.Ratio, "ratio")
	}
}

// BenchmarkCallToChannel reports the ratio of a call to a round trip over channels.
func BenchmarkCallToChannel(b *testing.B) {
	for b.Loop() {
		f, err := relaybench.MeasureCalls(b.Context(), 100, 2000)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(f.CallNS, "call-ns")
		b.ReportMetric(f.ChannelNS, "channel-ns")
		b.ReportMetric(f.WakeNS, "wake-ns")
		b.ReportMetric(f.Ratio, "ratio")
		b.ReportMetric(f.PerSecond, "calls/s")
	}
}
