package sim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestEachKindOfFaultHasItsDuration: the mean duration of a kind is its own, or Lasting.
func TestEachKindOfFaultHasItsDuration(t *testing.T) {
	w := sim.NewWorld(1)
	for _, name := range []string{"a", "b"} {
		w.Host(name).Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
	}
	w.Faults = sim.Faults{
		For: 10 * time.Hour, Lasting: 10 * time.Second, PartitionEvery: time.Minute, CrashEvery: time.Minute, PauseEvery: time.Minute,
		CrashFor: time.Second, PauseFor: 100 * time.Millisecond,
	}
	if err := w.RunFor(time.Second); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	sum, count := map[string]time.Duration{}, map[string]int{}
	for _, f := range sim.Scheduled(w) {
		kind := "partition"
		for _, other := range []string{"crashes", "pauses"} {
			if strings.Contains(f.What(), other) {
				kind = other
			}
		}
		sum[kind] += f.Lasts()
		count[kind]++
	}
	for kind, want := range map[string]time.Duration{"partition": 10 * time.Second, "crashes": time.Second, "pauses": 100 * time.Millisecond} {
		if count[kind] < 100 {
			t.Fatalf("%d of kind %s", count[kind], kind)
		}
		if mean := sum[kind] / time.Duration(count[kind]); mean < want*3/4 || mean > want*5/4 {
			t.Errorf("%s lasts %v on average, want %v", kind, mean, want)
		}
	}
}

// TestTooManyFaultsFail: faults are drawn in advance, and so many would take all memory. A
// world of one host has no partitions, but they are drawn.
func TestTooManyFaultsFail(t *testing.T) {
	for want, faults := range map[string]sim.Faults{
		"crash every 1ns":     {CrashEvery: 1, PauseEvery: time.Minute},
		"partition every 2ns": {PartitionEvery: 2},
	} {
		w := sim.NewWorld(1)
		w.Host("a").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
		w.Faults = faults
		if err := w.Run(); err == nil || err.Error() != "sim: Faults: more than 100000 faults in 1m0s: one of kind "+want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
