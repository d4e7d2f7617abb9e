//go:build spindle_python

package main

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// tally is what one process has counted. Any goroutine may use it. The supervisor of the workers
// knows its layout; see workers.py.
type tally struct {
	requests [6]atomic.Uint64 // by the first digit of the status; 0 if there was none
	bytes    atomic.Uint64    // of bodies of responses
	active   atomic.Int64     // requests that the app answers
	sockets  atomic.Uint64    // WebSockets that were opened
	_        [7]uint64
}

// counters are what the metrics show. Workers have their tallies in memory that they share, so that
// each of them can answer for all.
type counters struct {
	*tally           // of this process
	all      []tally // of all workers, of those that have ended too
	draining atomic.Bool
}

// tallies is how many tallies the shared memory has.
const tallies = 512

// sharedTally says where the memory of the workers is: in a file.
type sharedTally struct {
	FD   int `json:"fd"`
	Slot int `json:"slot"` // the tally of this process
}

func (c *counters) open(shared *sharedTally) error {
	if shared == nil {
		c.all = make([]tally, 1)
		c.tally = &c.all[0]
		return nil
	}
	// It stays mapped until the process ends, because handlers may still count.
	memory, err := syscall.Mmap(shared.FD, 0, tallies*int(unsafe.Sizeof(tally{})), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("spindle: memory for the metrics: %w", err)
	}
	c.all = unsafe.Slice((*tally)(unsafe.Pointer(&memory[0])), tallies)
	c.tally = &c.all[shared.Slot]
	return nil
}

func (c *counters) count(status int, bytes int64) {
	if class := status / 100; class < len(c.requests) {
		c.requests[class].Add(1)
	}
	c.bytes.Add(uint64(bytes))
}

// figures are the sums of all tallies.
type figures struct {
	requests       [6]uint64
	bytes, sockets uint64
	active         int64
}

func (c *counters) sum() (f figures) {
	for i := range c.all {
		t := &c.all[i]
		for class := range t.requests {
			f.requests[class] += t.requests[class].Load()
		}
		f.bytes += t.bytes.Load()
		f.sockets += t.sockets.Load()
		f.active += t.active.Load()
	}
	return f
}

func (s *server) serveMetrics(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	f := s.counters.sum()
	fmt.Fprint(w, "# HELP spindle_requests_total Requests that were answered, by the class of the status.\n# TYPE spindle_requests_total counter\n")
	for class := 1; class < len(f.requests); class++ {
		fmt.Fprintf(w, "spindle_requests_total{status=\"%dxx\"} %d\n", class, f.requests[class])
	}
	fmt.Fprintf(w, "# HELP spindle_requests_aborted_total Requests with a response that was not completed.\n# TYPE spindle_requests_aborted_total counter\nspindle_requests_aborted_total %d\n", f.requests[0])
	fmt.Fprintf(w, "# HELP spindle_requests_active Requests that the app answers.\n# TYPE spindle_requests_active gauge\nspindle_requests_active %d\n", f.active)
	fmt.Fprintf(w, "# HELP spindle_response_bytes_total Bytes of the bodies of responses.\n# TYPE spindle_response_bytes_total counter\nspindle_response_bytes_total %d\n", f.bytes)
	fmt.Fprintf(w, "# HELP spindle_websockets_total WebSockets that were opened.\n# TYPE spindle_websockets_total counter\nspindle_websockets_total %d\n", f.sockets)
}
