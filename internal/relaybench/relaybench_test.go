package relaybench_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/relaybench"
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
