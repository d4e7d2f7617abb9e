package natsbench_test

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/report"
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
		tables, err := natsbench.Measure(t.Context(), b.URL(), natsbench.Options{Rounds: 1, Round: time.Nanosecond})
		if err != nil {
			t.Fatalf("%d servers: %v", servers, err)
		}
		found := report.Flat(tables)
		if len(found) != 24 {
			t.Errorf("%d figures: %v", len(found), found)
		}
		for key, value := range found {
			if value <= 0 {
				t.Errorf("%s is %v", key, value)
			}
		}
		t.Logf("%d servers:\n%s", servers, report.Markdown(tables))
	}
}
