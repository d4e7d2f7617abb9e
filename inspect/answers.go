package inspect

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// header returns the header of an answer that was begun at a time of the inspector's
// clock.
func (h *handler) header(began time.Duration) inspectapi.Header {
	return inspectapi.Header{Version: inspectapi.Version, TakenAt: wallTime(), TookNS: int64(now() - began), Process: inspectapi.Process{
		PID:           os.Getpid(),
		Program:       filepath.Base(os.Args[0]),
		GoVersion:     runtime.Version(),
		GOMAXPROCS:    runtime.GOMAXPROCS(0),
		Goroutines:    runtime.NumGoroutine(),
		HeapBytes:     heapBytes(),
		ActionAllowed: h.AllowActions,
		Inspector:     h.substitute(),
	}}
}

// heapBytes returns the size of the heap. Unlike runtime.ReadMemStats it does not stop the
// program.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

func (h *handler) loops(*query) (any, error) {
	began := now()
	loops := readLoops()
	return inspectapi.LoopsAnswer{Header: h.header(began), Loops: loops}, nil
}

func (h *handler) tasks(q *query) (any, error) {
	began := now()
	f, loops := readForest(q.loop)
	defer f.release()
	tasks, paging := f.page(q)
	return inspectapi.TasksAnswer{Header: h.header(began), Paging: paging, Loops: loops, Tasks: tasks}, nil
}

func (h *handler) snapshot(q *query) (any, error) {
	began := now()
	a := SnapshotAnswer{Loops: readLoops()}
	f, _ := readForest(q.loop)
	var paging inspectapi.Paging
	a.Tasks, paging = f.page(q)
	a.More = paging.Matched - len(a.Tasks)
	rest := &query{loop: q.loop, limit: maxLimit}
	a.Waits = f.graph().answer()
	a.Sockets = []inspectapi.Socket{}
	for _, s := range rest.sources() {
		for _, row := range s.readSockets() {
			if len(a.Sockets) < rest.limit {
				a.Sockets = append(a.Sockets, row.socket(s.id))
			}
		}
	}
	a.Requests, _ = readRequests(rest)
	a.Objects, _ = f.graph().sorted(rest)
	a.Ended, _ = readEnded(rest)
	a.Blocked, _ = readBlocked(rest)
	a.Header = h.header(began)
	a.Waits.Header = a.Header
	return a, nil
}
