package sim_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/sim"
)

// BenchmarkWorlds measures worlds in a minute of CPU: an echo server and three clients of ten lines
// each, as in python/bench/worlds.py.
func BenchmarkWorlds(b *testing.B) {
	lines := make([]string, 10)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d\n", i)
	}
	before := cpuTime(b)
	for seed := range b.N {
		w := sim.NewWorld(uint64(seed))
		w.Host("server").Serve(serveEcho(":7"))
		for i := range 3 {
			w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error { return ask(ctx, "server:7", lines...) })
		}
		if err := w.Run(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Minutes(), "worlds/CPU-min")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
