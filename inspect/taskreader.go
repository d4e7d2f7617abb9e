package inspect

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/internal/probe"
)

const (
	// sliceTime is how long a snapshot of tasks holds the loop at a time.
	sliceTime = 500 * time.Microsecond
	// snapshotWait is how long a snapshot may take in all. After that the one before is
	// shown.
	snapshotWait = 900 * time.Millisecond
	// firstWait is the same if there is none before.
	firstWait = 5 * time.Second
	// snapshotAge is how old a snapshot may be to be shown again.
	snapshotAge = 250 * time.Millisecond
	// snapshotShare is how many times longer than it held the loop a snapshot is shown, so
	// that a loop spends at most a fiftieth of its time on snapshots of tasks, and as much
	// on those of sockets.
	snapshotShare = 50
	// chunk is how many rows are allocated at a time.
	chunk = 512
)

// row is a task as a snapshot has it. Its texts are made outside the loop.
type row struct {
	probe.Task
	reason string // of Cancelled
	object probe.ObjectInfo
}

// taskSnapshot is the tasks of a loop.
type taskSnapshot struct {
	at     time.Duration // on the inspector's clock
	clock  time.Duration // the same on the loop's
	rows   [][]row       // in chunks
	n      int
	ended  []probe.EndedTask
	slices int
	held   time.Duration // in all
	long   time.Duration // the longest
	counts TaskCounts
	tasks  probe.Tasks // nil if the loop has none

	users atomic.Int32 // the rows are used again when there are none
}

// chunks has chunks of rows for the next snapshot. Without them a page that is open would
// make megabytes of garbage each second, and every garbage collection of a program with
// many tasks looks at as many stacks.
var chunks = sync.Pool{New: func() any { return new([chunk]row) }}

// release says that a caller of readTasks does not use the snapshot any more. A caller that
// does not say so leaves the rows to the garbage collector.
func (snap *taskSnapshot) release() {
	if snap == nil || snap.users.Add(-1) != 0 {
		return
	}
	for _, rows := range snap.rows {
		chunks.Put((*[chunk]row)(rows[:chunk]))
	}
	snap.rows = nil
}

// taskReader takes snapshots of the tasks of a loop.
type taskReader struct {
	reading sync.Mutex // held during a snapshot

	mu   sync.Mutex
	last *taskSnapshot // guarded by mu
}

func (r *taskReader) latest() *taskSnapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// counts returns the number of tasks in the latest snapshot.
func (r *taskReader) counts() TaskCounts {
	if last := r.latest(); last != nil {
		return last.counts
	}
	return TaskCounts{}
}

// readTasks returns a snapshot of the loop's tasks. If the loop does not answer in time it
// returns the latest one, which may be nil, and reports that it is stale. The caller calls
// release when it is done with it, if it can.
func (s *source) readTasks() (snap *taskSnapshot, stale bool) {
	r := &s.tasks
	r.reading.Lock()
	defer r.reading.Unlock()
	defer func() {
		if snap != nil {
			snap.users.Add(1)
		}
	}()
	last := r.latest()
	if last != nil && now()-last.at < max(snapshotAge, snapshotShare*last.held) {
		return last, false
	}
	if !s.answers() {
		return last, true
	}
	wait := snapshotWait
	if last == nil {
		wait = firstWait
	}
	expired, stop := after(wait)
	defer stop()
	snap = s.takeTasks(expired)
	if snap == nil {
		return last, true
	}
	snap.users.Store(1) // r.last
	r.mu.Lock()
	r.last = snap
	r.mu.Unlock()
	last.release()
	return snap, false
}

// takeTasks takes a snapshot in slices. It returns nil if the loop does not answer before
// expired receives a value. The loop runs one slice after the other, with a turn between
// them, so that the snapshot does not wait for this goroutine to be scheduled.
func (s *source) takeTasks(expired <-chan time.Time) *taskSnapshot {
	snap := &taskSnapshot{}
	var walk probe.TaskWalk
	if s.l.Owns() {
		for snap.slice(s, &walk) {
		}
		snap.at = now()
		return snap
	}
	done := make(chan struct{})
	var dropped atomic.Bool // the caller does not wait any more
	var step func()
	step = func() {
		switch {
		case dropped.Load(): // a walk in progress remembers every task that enters a scope
			if walk != nil {
				walk.End()
			}
		case snap.slice(s, &walk):
			s.core.CallSoon(loopcore.DropAtClose, step)
		default:
			close(done)
		}
	}
	if s.core.Post(loopcore.DropAtClose, step) != nil {
		return nil
	}
	select {
	case <-done:
		snap.at = now()
		return snap
	case <-s.core.Done():
	case <-expired:
	}
	dropped.Store(true)
	return nil
}

// slice visits tasks for the time of a slice. It reports whether there are more. It runs on
// the loop.
func (snap *taskSnapshot) slice(s *source, walk *probe.TaskWalk) (more bool) {
	began := s.l.Time()
	if *walk == nil {
		if *walk = snap.begin(s); *walk == nil {
			return false
		}
	}
	more = (*walk).Next(func() bool { return s.l.Time()-began > sliceTime }, snap.add)
	if !more {
		snap.ended = snap.tasks.Ended()
	}
	snap.clock = s.l.Time()
	took := snap.clock - began
	snap.held += took
	snap.long = max(snap.long, took)
	snap.slices++
	return more
}

// abandon ends a walk after the loop did not answer in time: a walk in progress remembers
// every task that enters a scope. It does not wait for the loop.
func (s *source) abandon(walk *probe.TaskWalk) {
	_ = s.core.Post(loopcore.DropAtClose, func() {
		if *walk != nil {
			(*walk).End()
		}
	})
}

// begin begins the walk. It returns nil if the loop has no tasks. It runs on the loop.
func (snap *taskSnapshot) begin(s *source) (walk probe.TaskWalk) {
	s.core.EachValue(func(v any) {
		if tasks, ok := v.(probe.Tasks); ok && snap.tasks == nil { // of a host first, which is there from the beginning
			snap.tasks = tasks
			walk = tasks.WalkTasks()
		}
	})
	return walk
}

// add adds a task. It runs on the loop.
func (snap *taskSnapshot) add(t *probe.Task) {
	last := len(snap.rows) - 1
	if last < 0 || len(snap.rows[last]) == chunk {
		snap.rows = append(snap.rows, chunks.Get().(*[chunk]row)[:0])
		last++
	}
	rows := append(snap.rows[last], row{Task: *t})
	snap.rows[last] = rows
	snap.n++
	r := &rows[len(rows)-1]
	if t.Cancelled != nil {
		r.reason = t.Cancelled.Error()
		r.Cancelled = nil
	}
	if t.WaitsOn != nil {
		r.object = t.WaitsOn.ProbeObject()
		r.WaitsOn = nil
	}
	r.Ref = nil
	switch t.State {
	case probe.Fresh:
		snap.counts.Fresh++
	case probe.Ready:
		snap.counts.Ready++
	case probe.Running:
		snap.counts.Running++
	case probe.Waiting:
		snap.counts.Waiting++
	}
}

// each calls fn with every row.
func (snap *taskSnapshot) each(fn func(*row)) {
	if snap == nil {
		return
	}
	for _, rows := range snap.rows {
		for i := range rows {
			fn(&rows[i])
		}
	}
}
