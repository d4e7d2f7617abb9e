package inspect

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Snapshot returns everything about the loop that ctx belongs to, as it is now, with the
// schema of /api/v1/snapshot. It is for tasks and callbacks of that loop. It also works in
// a simulated world, where it shows the state at the present virtual time:
//
//	sim.Test(t, func(ctx context.Context) error {
//		…
//		spindle.Sleep(ctx, time.Minute)
//		at := inspect.Snapshot(ctx)
//		…
//	})
//
// It holds the loop for as long as it takes. It is for tests and for records of a run; to
// look at a program that serves, use Serve or Handler.
func Snapshot(ctx context.Context) SnapshotAnswer {
	l := spindle.LoopOf(ctx)
	if !l.Owns() {
		panic("inspect: Snapshot called from a goroutine that is not the loop's; call it in a task")
	}
	s := &source{id: loopID(l.Internal().ID()), core: l.Internal(), l: l}
	s.vitals.read(s)
	s.vitals.at = max(now(), 1)
	snap := s.takeTasks(nil)
	rows, _, _, _ := s.takeSockets(nil, nil)
	f := newForest([]*source{s}, []*taskSnapshot{snap})
	s.tasks.last = snap

	a := SnapshotAnswer{
		Header: Header{Version: Version, TakenAt: l.Internal().Kernel().Wall()},
		Loops:  []Loop{s.describe()},
		Tasks:  []Task{}, Sockets: []Socket{}, Requests: []Request{}, Ended: []EndedTask{},
	}
	a.Loops[0].AgeNS, a.Loops[0].Stale = 0, false
	for _, t := range f.inTreeOrder(&query{}) {
		a.Tasks = append(a.Tasks, *t)
	}
	a.Waits = f.graph.answer()
	a.Waits.Header = a.Header
	a.Objects, _ = f.graph.sorted(&query{})
	byScope := map[uintptr]string{}
	snap.each(func(r *row) { byScope[r.Scope] = taskID(s.id, r.ID) })
	for i := range rows {
		one := rows[i].socket(s.id)
		one.AgeNS = nil // it was not seen before
		a.Sockets = append(a.Sockets, one)
		if rows[i].HasRequest {
			a.Requests = append(a.Requests, rows[i].request(s, byScope))
		}
	}
	for i := len(snap.ended) - 1; i >= 0; i-- {
		a.Ended = append(a.Ended, snap.endedTask(s.id, i))
	}
	a.Blocked = []Blocked{}
	return a
}
