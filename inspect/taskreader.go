package inspect

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

const (
	// sliceTime is how long a snapshot of tasks holds the loop at a time.
	sliceTime = 500 * time.Microsecond
	// snapshotWait is how long a request waits for a snapshot. After that the one before is
	// shown.
	snapshotWait = 900 * time.Millisecond
	// firstWait is the same if there is none before.
	firstWait = 5 * time.Second
	// snapshotAge is how old a snapshot may be to be shown again.
	snapshotAge = 250 * time.Millisecond
	// snapshotShare is how many times longer than it held the loop a snapshot is shown, so
	// that a loop spends at most a hundredth of its time on snapshots of tasks, and as much
	// on those of sockets.
	snapshotShare = 100
	// snapshotMost is how old a snapshot may be in any case: on a busy machine a loop that was
	// suspended during a slice seems to have been held for long.
	snapshotMost = 10 * time.Second
	// chunk is how many rows are allocated at a time.
	chunk = 128
	// reserveLeast and reserveMost bound how many chunks are allocated for a walk at a time.
	reserveLeast, reserveMost = 8, 256
)

// isRecent reports whether a snapshot is shown again. It was taken at a time of the inspector's
// clock, and has held the loop for a while.
func isRecent(at, held time.Duration) bool {
	return now()-at < min(max(snapshotAge, snapshotShare*held), snapshotMost)
}

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
	spare  []*[chunk]row // for more rows; allocated outside the loop
	n      int
	ended  []probe.EndedTask
	slices int
	held   time.Duration // in all
	long   time.Duration // the longest
	counts inspectapi.TaskCounts
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

// reserve allocates rows for more tasks, as many as there are and at most reserveMost. It
// does not run on the loop: a large allocation takes milliseconds during a garbage
// collection, because the collector makes goroutines that allocate help it.
func (snap *taskSnapshot) reserve() {
	for range min(max(len(snap.rows), reserveLeast), reserveMost) {
		snap.spare = append(snap.spare, chunks.Get().(*[chunk]row))
	}
	snap.rows = slices.Grow(snap.rows, len(snap.spare))
}

// isFull reports whether the walk needs more rows soon. The chunk in use has room for the
// tasks that come before the walk asks again.
func (snap *taskSnapshot) isFull() bool { return len(snap.spare) == 0 }

// giveBack releases the rows that were reserved and not used.
func (snap *taskSnapshot) giveBack() {
	for _, c := range snap.spare {
		chunks.Put(c)
	}
	snap.spare = nil
}

// taskReader takes snapshots of the tasks of a loop.
type taskReader struct {
	mu   sync.Mutex
	last *taskSnapshot // guarded by mu
	walk *taskWalk     // in progress, or nil; guarded by mu
}

// taskWalk is a walk over the tasks of a loop. A loop has one at a time.
type taskWalk struct {
	done chan struct{} // closed at its end
	void bool          // its end gives no snapshot; guarded by taskReader.mu
}

// begin begins a walk, and reports true. If there is one in progress, begin returns that.
func (r *taskReader) begin(void bool) (w *taskWalk, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beginLocked(void)
}

// beginAfter is begin for a snapshot. If one has come since use returned seen, beginAfter
// returns a walk that has ended.
func (r *taskReader) beginAfter(seen *taskSnapshot) (w *taskWalk, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && r.last != seen {
		done := make(chan struct{})
		close(done)
		return &taskWalk{done: done}, false
	}
	return r.beginLocked(false)
}

func (r *taskReader) beginLocked(void bool) (w *taskWalk, begun bool) {
	if begun = r.walk == nil; begun {
		r.walk = &taskWalk{done: make(chan struct{}), void: void}
	}
	return r.walk, begun
}

// end ends a walk. Its snapshot is nil if there is none.
func (r *taskReader) end(w *taskWalk, snap *taskSnapshot) {
	r.mu.Lock()
	var before *taskSnapshot
	if w.void = w.void || snap == nil; !w.void {
		before, r.last = r.last, snap
		snap.users.Store(1) // r.last
	}
	r.walk = nil
	r.mu.Unlock()
	before.release()
	close(w.done)
}

// use returns the latest snapshot, or nil. It reports whether that is new enough to be shown
// again. The caller calls release when it is done with it, if it can.
func (r *taskReader) use() (snap *taskSnapshot, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if snap = r.last; snap == nil {
		return nil, false
	}
	snap.users.Add(1)
	return snap, isRecent(snap.at, snap.held)
}

// gives reports whether the end of w has given a snapshot.
func (r *taskReader) gives(w *taskWalk) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !w.void
}

// forget releases the latest snapshot, and that of a walk in progress at its end.
func (r *taskReader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
	if r.walk != nil {
		r.walk.void = true
	}
}

// counts returns the number of tasks in the latest snapshot.
func (r *taskReader) counts() inspectapi.TaskCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return inspectapi.TaskCounts{}
	}
	return r.last.counts
}

// readTasks returns a snapshot of the loop's tasks. If the loop does not answer in time it
// returns the latest one, which may be nil, and reports that it is stale. The walk then goes
// on, and a later call returns its snapshot, so that a loop that is always busy shows its
// tasks, too. The caller calls release when it is done with it, if it can.
func (s *source) readTasks() (snap *taskSnapshot, stale bool) {
	r := &s.tasks
	snap, isNew := r.use()
	if isNew {
		return snap, false
	}
	wait := snapshotWait
	if snap == nil {
		wait = firstWait
	}
	expired, stop := after(wait)
	defer stop()
	for s.answers() {
		w, begun := r.beginAfter(snap)
		if begun && !s.walkTasks(w) || !begun && s.l.Owns() || !s.waits(w, expired) {
			break // the loop is closed, would wait for itself, or does not answer in time
		}
		if r.gives(w) {
			snap.release()
			snap, _ = r.use()
			return snap, snap == nil
		}
	}
	return snap, true
}

// waits waits for the end of a walk. It reports false if expired receives a value before, or
// if the loop is closed.
func (s *source) waits(w *taskWalk, expired <-chan time.Time) bool {
	select {
	case <-w.done:
		return true
	case <-s.l.Done():
	case <-expired:
	}
	return false
}

// takeTasks takes a snapshot at once. The caller owns the loop.
func (s *source) takeTasks() *taskSnapshot {
	snap := &taskSnapshot{}
	var walk probe.TaskWalk
	for more := true; more; {
		if snap.isFull() {
			snap.reserve()
		}
		more = snap.slice(s, &walk)
	}
	snap.giveBack()
	snap.at = now()
	return snap
}

// walkTasks takes a snapshot in slices, and ends w with it. It does not wait. The loop runs
// one slice after the other, with a turn between them, so that the snapshot seldom waits
// for other goroutines to be scheduled: only when it needs more rows. It reports false if
// the loop is closed.
func (s *source) walkTasks(w *taskWalk) bool {
	if s.l.Owns() {
		s.tasks.end(w, s.takeTasks())
		return true
	}
	snap := &taskSnapshot{}
	var walk probe.TaskWalk
	var step func()
	post := func() bool {
		snap.reserve()
		if s.l.Internal().Post(atclose.Drop, step) != nil {
			s.tasks.end(w, nil)
			return false
		}
		return true
	}
	step = func() {
		switch more := snap.slice(s, &walk); {
		case !more:
			snap.giveBack()
			snap.at = now()
			s.tasks.end(w, snap)
		case snap.isFull():
			background(func() { post() })
		default:
			s.l.Internal().CallSoon(atclose.Drop, step)
		}
	}
	return post()
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
	more = (*walk).Next(func() bool { return snap.isFull() || s.l.Time()-began > sliceTime }, snap.add)
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
	_ = s.l.Internal().Post(atclose.Drop, func() {
		if *walk != nil {
			(*walk).End()
		}
	})
}

// begin begins the walk. It returns nil if the loop has no tasks. It runs on the loop.
func (snap *taskSnapshot) begin(s *source) (walk probe.TaskWalk) {
	s.l.Internal().EachValue(func(v any) {
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
		snap.rows = append(snap.rows, snap.nextChunk()[:0])
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

// nextChunk returns an empty chunk.
func (snap *taskSnapshot) nextChunk() (c *[chunk]row) {
	last := len(snap.spare) - 1
	if last < 0 {
		return chunks.Get().(*[chunk]row) // many tasks have come at once
	}
	c, snap.spare = snap.spare[last], snap.spare[:last]
	return c
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
