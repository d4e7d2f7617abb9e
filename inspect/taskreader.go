package inspect

import (
	"sync"
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
	// snapshotAge is how old a snapshot may be to be shown again.
	snapshotAge = 250 * time.Millisecond
	// chunk is how many rows are allocated at a time.
	chunk = 512
)

// row is a task as a snapshot has it. Its texts are made outside the loop.
type row struct {
	probe.Task
	account probe.Account
	reason  string // of Cancelled
	object  probe.ObjectInfo
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
// returns the latest one, which may be nil, and reports that it is stale. However many
// clients there are, a loop spends at most a twentieth of its time on snapshots.
func (s *source) readTasks() (snap *taskSnapshot, stale bool) {
	r := &s.tasks
	r.reading.Lock()
	defer r.reading.Unlock()
	last := r.latest()
	if last != nil && now()-last.at < max(snapshotAge, 20*last.held) {
		return last, false
	}
	if !s.answers() {
		return last, true
	}
	expired, stop := after(snapshotWait)
	defer stop()
	snap = s.takeTasks(expired)
	if snap == nil {
		return last, true
	}
	r.mu.Lock()
	r.last = snap
	r.mu.Unlock()
	return snap, false
}

// takeTasks takes a snapshot in slices. It returns nil if the loop does not answer before
// expired receives a value.
func (s *source) takeTasks(expired <-chan time.Time) *taskSnapshot {
	snap := &taskSnapshot{}
	var walk probe.TaskWalk
	more := true
	for more {
		answered := s.ask(expired, func() {
			began := s.l.Time()
			if walk == nil {
				if walk = snap.begin(s); walk == nil {
					more = false
					return
				}
			}
			more = walk.Next(func() bool { return s.l.Time()-began > sliceTime }, snap.add)
			if !more {
				snap.ended = snap.tasks.Ended()
			}
			snap.clock = s.l.Time()
			took := snap.clock - began
			snap.held += took
			snap.long = max(snap.long, took)
			snap.slices++
		})
		if !answered {
			s.abandon(&walk)
			return nil
		}
	}
	snap.at = now()
	return snap
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
		snap.rows = append(snap.rows, make([]row, 0, chunk))
		last++
	}
	rows := append(snap.rows[last], row{Task: *t})
	snap.rows[last] = rows
	snap.n++
	r := &rows[len(rows)-1]
	if t.Account != nil {
		r.account = *t.Account
		r.Account = &r.account
	}
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
