package probe

import (
	"sync"
	"sync/atomic"
	"time"
)

// Metered is implemented by what has metrics and belongs to no loop: callers, workers and buses
// of package relay. Values must be comparable. The method is for any goroutine, and may take a
// second.
type Metered interface {
	ProbeMetrics() []Sample
}

// Sample is a value of a metric. Samples with the same name and labels are added.
type Sample struct {
	Name, Help string
	Gauge      bool // otherwise a counter, or a histogram if Took is set
	Labels     [][2]string
	Value      float64
	Took       *Durations
}

// Durations is a histogram with the buckets of RequestBuckets.
type Durations struct {
	Took [len(RequestBuckets) + 1]uint64 // by bucket; the last has no bound
	Sum  time.Duration
}

// Add counts a duration.
func (d *Durations) Add(took time.Duration) {
	d.Sum += took
	i := 0
	for i < len(RequestBuckets) && took > RequestBuckets[i] {
		i++
	}
	d.Took[i]++
}

// Merge adds the counts of other.
func (d *Durations) Merge(other *Durations) {
	d.Sum += other.Sum
	for i, n := range other.Took {
		d.Took[i] += n
	}
}

// Measuring is set when metrics are first read. Before, durations need not be measured.
var Measuring atomic.Bool

var metered struct {
	mu  sync.Mutex
	all map[Metered]struct{} // guarded by mu
}

// AddMetered registers m until RemoveMetered is called.
func AddMetered(m Metered) {
	metered.mu.Lock()
	defer metered.mu.Unlock()
	if metered.all == nil {
		metered.all = make(map[Metered]struct{})
	}
	metered.all[m] = struct{}{}
}

// RemoveMetered reverses AddMetered.
func RemoveMetered(m Metered) {
	metered.mu.Lock()
	defer metered.mu.Unlock()
	delete(metered.all, m)
}

// AllMetered returns what is registered, in no particular order.
func AllMetered() (all []Metered) {
	metered.mu.Lock()
	defer metered.mu.Unlock()
	for m := range metered.all { // any order: for inspectors, outside of the program
		all = append(all, m)
	}
	return all
}

// Serving is implemented by a Metered that serves a subject of package relay.
type Serving interface {
	ProbeService() Service
}

// Service describes what serves a subject.
type Service struct {
	Bus              any
	Subject, Group   string
	Requests, Errors uint64 // that have ended
	LastError        string
	Busy             time.Duration // of all handlers, since Measuring was set
}
