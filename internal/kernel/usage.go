package kernel

import (
	"runtime/metrics"
	"time"
)

// Usage is what the process had used of its CPUs at a moment. It is for diagnostics.
type Usage struct {
	at  time.Time
	cpu time.Duration
	ok  bool
}

// ReadUsage returns the usage now.
func ReadUsage() Usage {
	cpu, ok := cpuTime()
	return Usage{time.Now(), cpu, ok}
}

// Since returns how much time has passed since an earlier usage, and how much CPU time the
// process has used meanwhile. Ok is false if the system does not say.
func (u Usage) Since(earlier Usage) (wall, cpu time.Duration, ok bool) {
	return u.at.Sub(earlier.at), u.cpu - earlier.cpu, u.ok && earlier.ok
}

// Contenders returns how many goroutines other than the caller run or wait for a CPU. It
// is 0 if the runtime does not say.
func Contenders() int {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
	}
	metrics.Read(samples)
	n := -1
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n += int(s.Value.Uint64())
		}
	}
	return max(n, 0)
}
