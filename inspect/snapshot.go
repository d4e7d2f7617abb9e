package inspect

import (
	"cmp"
	"context"
	"slices"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

// SnapshotAnswer is everything at one moment, and the answer of /api/v1/snapshot.
// docs/design/023-inspect.md explains the fields of its parts.
type SnapshotAnswer struct {
	inspectapi.Header
	Loops    []inspectapi.Loop       `json:"loops"`
	Tasks    []inspectapi.Task       `json:"tasks"`
	More     int                     `json:"more_tasks"` // left out
	Waits    inspectapi.WaitsAnswer  `json:"waits"`
	Sockets  []inspectapi.Socket     `json:"sockets"`
	Requests []inspectapi.Request    `json:"requests"`
	Objects  []inspectapi.SyncObject `json:"objects"`
	Ended    []inspectapi.EndedTask  `json:"ended"`
	Blocked  []inspectapi.Blocked    `json:"blocked"`
}

// Task describes a task, as in the API.
type Task = inspectapi.Task

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
	s := &source{id: loopID(l.Internal().ID()), l: l}
	if known := knownSource(l.Internal().ID()); known != nil {
		known.tasks.forget() // the walk below ends one that is in progress
	}
	s.vitals.read(s)
	s.vitals.at = max(now(), 1)
	sockets := newSocketWalk(nil)
	sockets.finish(s)
	c := capture{source: s, tasks: s.takeTasks(), sockets: sockets.rows}
	a := assemble([]capture{c})
	a.TakenAt = l.Internal().Kernel().Wall()
	a.Waits.Header = a.Header
	for i := range a.Sockets {
		a.Sockets[i].AgeNS = nil // it was not seen before
	}
	return *a
}

// capture is what was read of a loop at one moment.
type capture struct {
	source  *source
	tasks   *taskSnapshot
	sockets []socketRow
}

// assemble makes the answer of what was read of some loops. It does not set the times in the
// headers.
func assemble(all []capture) *SnapshotAnswer {
	a := &SnapshotAnswer{
		Header: inspectapi.Header{Version: inspectapi.Version},
		Loops:  []inspectapi.Loop{}, Sockets: []inspectapi.Socket{}, Requests: []inspectapi.Request{}, Ended: []inspectapi.EndedTask{}, Blocked: []inspectapi.Blocked{},
	}
	var sources []*source
	var snaps []*taskSnapshot
	for _, c := range all {
		c.source.tasks.last = c.tasks
		sources, snaps = append(sources, c.source), append(snaps, c.tasks)
	}
	f := newForest(sources, snaps)
	a.Tasks = f.tasks(f.ordered(&query{sort: "tree"}))
	a.Waits = f.graph().answer()
	a.Objects, _ = f.graph().sorted(&query{})
	for _, c := range all {
		c.describe(a)
	}
	slices.SortStableFunc(a.Ended, func(x, y inspectapi.EndedTask) int { return cmp.Compare(x.AgoNS, y.AgoNS) })
	return a
}

// describe adds the loop, its sockets and the tasks that have ended.
func (c *capture) describe(a *SnapshotAnswer) {
	s := c.source
	l := s.describe()
	l.AgeNS, l.Stale = 0, false
	a.Loops = append(a.Loops, l)
	byScope := map[uintptr]string{}
	c.tasks.each(func(r *row) { byScope[r.Scope] = taskID(s.id, r.ID) })
	for i := range c.sockets {
		r := &c.sockets[i]
		a.Sockets = append(a.Sockets, r.socket(s.id))
		r.eachRequest(func(stream uint32, from *probe.Request) {
			a.Requests = append(a.Requests, r.request(s, byScope, stream, from))
		})
	}
	for i := len(c.tasks.ended) - 1; i >= 0; i-- {
		a.Ended = append(a.Ended, c.tasks.endedTask(s.id, i))
	}
}
