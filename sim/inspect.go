package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// Inspect takes a snapshot of all loops in the world at the virtual time t, with the schema
// of package inspect. A loop has the name of its host, unless the program names it.
//
//	at := w.Inspect(3 * time.Second)
//	err := w.Run()
//	for _, task := range at.Tasks { … }
//
// At the present time, Inspect takes the snapshot at once. For a later time it returns an
// empty one, which the world fills in when it has come to that time and nothing more happens
// at it. If the world ends before, it stays empty, and its Version is 0. Inspect panics if t
// has passed: use InspectEvery and Recording to look back.
//
// Snapshots do not influence the run, and the same seed gives the same snapshots.
func (w *World) Inspect(t time.Duration) *inspect.SnapshotAnswer {
	switch now := w.Now(); {
	case t < now:
		panic(fmt.Sprintf("sim: Inspect(%v) at %v: that time has passed; call it before the world runs, or set InspectEvery", t, now))
	case t == now && w.begun:
		return w.take()
	}
	a := &inspect.SnapshotAnswer{}
	w.recorder.wanted = append(w.recorder.wanted, wantedSnapshot{t, a})
	slices.SortStableFunc(w.recorder.wanted, func(a, b wantedSnapshot) int { return cmp.Compare(a.at, b.at) })
	w.observe()
	return a
}

// Recording returns the snapshots that InspectEvery has made so far. To show them on a page,
// serve them:
//
//	inspect.Serve("127.0.0.1:6061", inspect.Options{Recording: w.Recording()})
//
// The last one has the state at the end of the run, or when the run has failed. It is nil if
// there are none.
func (w *World) Recording() *inspect.Recording {
	if len(w.recorder.kept) == 0 {
		return nil
	}
	return &inspect.Recording{
		Title: fmt.Sprintf("simulated world, seed %d", w.Seed()), Begin: simkernel.Begin,
		Snapshots: slices.Clone(w.recorder.kept), Messages: w.messages(),
	}
}

// messages returns the trace for a recording.
func (w *World) messages() (all []inspectapi.Message) {
	for i, e := range w.Trace() {
		all = append(all, inspectapi.Message{
			Number: i + 1, AtNS: int64(e.At), SentNS: int64(e.Sent), Kind: e.Kind, From: e.From, To: e.To,
			SizeBytes: e.Size, Text: cmp.Or(e.Text, e.Note), Note: e.Note,
		})
	}
	return all
}

// snapshots is the recorder of package inspect.
type snapshots interface {
	Attach(l *loop.Loop)
	Take(begin time.Time, at time.Duration, loops []*loop.Loop, describe func(*loop.Loop) (id string, paused bool)) *inspect.SnapshotAnswer
}

// recorder is the observer of a world.
type recorder struct {
	w      *World
	core   snapshots
	wanted []wantedSnapshot          // of Inspect, by time
	every  time.Duration             // of InspectEvery; 0 for never
	next   time.Duration             // when it is due
	kept   []*inspect.SnapshotAnswer // of InspectEvery
	rows   int                       // in kept
}

// wantedSnapshot is a snapshot that the world is to fill in.
type wantedSnapshot struct {
	at   time.Duration
	into *inspect.SnapshotAnswer
}

// observe makes the recorder the world's observer if there is something to record.
func (w *World) observe() {
	r := &w.recorder
	r.w = w
	if len(r.wanted) > 0 || r.every > 0 {
		w.core.SetObserver(r)
	}
}

// Due returns when the next snapshot is due.
func (r *recorder) Due() time.Duration {
	due := time.Duration(math.MaxInt64)
	if r.every > 0 {
		due = r.next
	}
	if len(r.wanted) > 0 {
		due = min(due, r.wanted[0].at)
	}
	return due
}

// Observe takes the snapshots that are due.
func (r *recorder) Observe() {
	now := r.w.Now()
	a := r.w.take()
	for len(r.wanted) > 0 && r.wanted[0].at <= now {
		*r.wanted[0].into = *a
		r.wanted = r.wanted[1:]
	}
	if r.every > 0 && r.next <= now {
		r.keep(a)
		r.next = now + r.every
	}
}

// end records the state in which the run ends.
func (r *recorder) end() {
	if r.every > 0 {
		r.keep(r.w.take())
		r.every = 0
	}
}

// A recording holds at most maxKept snapshots with maxRows rows in all.
const (
	maxKept = 2400
	maxRows = 1 << 20
)

// keep adds a snapshot. It replaces one of the same time. If the recording becomes too large,
// every second snapshot is dropped, and those to come are made half as often.
func (r *recorder) keep(a *inspect.SnapshotAnswer) {
	if n := len(r.kept); n > 0 && r.kept[n-1].TakenAt.Equal(a.TakenAt) {
		r.rows -= rowsOf(r.kept[n-1])
		r.kept = r.kept[:n-1]
	}
	r.kept = append(r.kept, a)
	r.rows += rowsOf(a)
	for len(r.kept) > 2 && (len(r.kept) > maxKept || r.rows > maxRows) {
		thin := r.kept[:0]
		r.rows = 0
		for i, a := range r.kept {
			if i%2 == 0 {
				thin = append(thin, a)
				r.rows += rowsOf(a)
			}
		}
		clear(r.kept[len(thin):])
		r.kept, r.every = thin, 2*r.every
	}
}

// rowsOf returns the number of rows of a snapshot.
func rowsOf(a *inspect.SnapshotAnswer) int {
	return len(a.Loops) + len(a.Tasks) + len(a.Sockets) + len(a.Requests) + len(a.Objects) + len(a.Ended) + len(a.Waits.Nodes) + len(a.Waits.Edges)
}

// take takes a snapshot at the present time, while no program runs, or in a program.
func (w *World) take() *inspect.SnapshotAnswer {
	var loops []*loop.Loop
	for _, l := range loop.Internal().Open() {
		if p := processRunning(l); p != nil && p.Lives(w.core) {
			loops = append(loops, l)
		}
	}
	slices.SortFunc(loops, func(a, b *loop.Loop) int { return cmp.Compare(processRunning(a).ID(), processRunning(b).ID()) })
	return w.recorder.core.Take(simkernel.Begin, w.Now(), loops, func(l *loop.Loop) (id string, paused bool) {
		p := processRunning(l)
		return strconv.Itoa(int(p.ID())), p.Host().Paused()
	})
}

// processRunning returns the simulated process that runs l, or nil.
func processRunning(l *loop.Loop) *simkernel.Process {
	p, _ := l.Internal().Kernel().Poller.(*simkernel.Process)
	return p
}
