package natsbench_test

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/relay/nats/broker"
	"github.com/spindleloop/spindle/relay/nats/internal/natsbench"
)

// TestMeasure checks that all figures are there. What they are is for quiet machines.
func TestMeasure(t *testing.T) {
	for _, servers := range []int{1, 3} {
		b, err := broker.Start(broker.Options{Servers: servers})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		f, err := natsbench.Measure(t.Context(), b.URL(), natsbench.Options{Rounds: 1, Round: time.Nanosecond})
		if err != nil {
			t.Fatalf("%d servers: %v", servers, err)
		}
		if f.CallNS <= 0 || f.PlainNS <= 0 || f.Ratio <= 0 || f.CallsPerS <= 0 || f.PlainPerS <= 0 || f.ManyRatio <= 0 || f.GoroutineRatio <= 0 || f.MinimalRatio <= 0 || f.MinimalManyRatio <= 0 || f.TaskToPlain.Rate <= 0 || f.PlainToWorker.Rate <= 0 || f.TaskToLeast.Rate <= 0 {
			t.Errorf("%+v", f)
		}
		t.Logf("%d servers: %+v", servers, f)
	}
}
