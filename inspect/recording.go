package inspect

import (
	"errors"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// Recording is a sequence of snapshots, such as those of a simulated run
// (sim.World.Recording). Options.Recording shows one on the page, where the scrubber moves
// through its time.
type Recording struct {
	Title     string               // shown on the page
	Begin     time.Time            // when the time of the recording begins
	Snapshots []*SnapshotAnswer    // oldest first; there is at least one
	Messages  []inspectapi.Message // what the hosts of a simulated world sent, oldest first
}

// at returns the last snapshot that is not later than d after the beginning. It returns the
// last of all if d is negative.
func (r *Recording) at(d time.Duration) *SnapshotAnswer {
	n := len(r.Snapshots)
	if d >= 0 {
		limit := r.Begin.Add(d)
		for n > 1 && r.Snapshots[n-1].TakenAt.After(limit) {
			n--
		}
	}
	return r.Snapshots[n-1]
}

// recordedEndpoints are the endpoints for a recording.
var recordedEndpoints = map[string]endpoint{
	"history":  (*handler).history,
	"messages": (*handler).messages,
	"loops":    onRecorded(recordedLoops),
	"tasks":    onRecorded(recordedTasks),
	"waits":    onRecorded(recordedWaits),
	"sockets":  onRecorded(recordedSockets),
	"requests": onRecorded(recordedRequests),
	"sync":     onRecorded(recordedObjects),
	"ended":    onRecorded(recordedEnded),
	"blocked":  onRecorded(recordedBlocked),
	"snapshot": onRecorded(func(a *SnapshotAnswer, _ *query) any { return a }),
	"stack":    func(*handler, *query) (any, error) { return nil, errNoStack },
}

var errNoStack = errors.New("a recording has no stacks")

// onRecorded returns the endpoint that makes an answer of the snapshot that a query selects.
func onRecorded(answer func(a *SnapshotAnswer, q *query) any) endpoint {
	return func(h *handler, q *query) (any, error) { return answer(h.Recording.at(q.at), q), nil }
}

func (h *handler) history(*query) (any, error) {
	r := h.Recording
	a := inspectapi.HistoryAnswer{Header: r.at(-1).Header, Title: r.Title, Moments: []inspectapi.Moment{}}
	for _, s := range r.Snapshots {
		m := inspectapi.Moment{AtNS: int64(s.TakenAt.Sub(r.Begin)), Loops: []inspectapi.MomentLoop{}}
		for _, l := range s.Loops {
			m.Loops = append(m.Loops, inspectapi.MomentLoop{ID: l.ID, State: l.State, LagNS: max(l.LagNS, l.LagP99NS), CallbackRate: l.CallbackRate})
		}
		a.Moments = append(a.Moments, m)
	}
	return a, nil
}

func recordedLoops(a *SnapshotAnswer, _ *query) any {
	return inspectapi.LoopsAnswer{Header: a.Header, Loops: a.Loops}
}

func recordedTasks(a *SnapshotAnswer, q *query) any {
	f := newRecordedForest(of(q, a.Tasks, func(t *inspectapi.Task) string { return t.Loop }))
	loops := []inspectapi.TaskLoop{}
	for _, l := range a.Loops {
		if q.loop == "" || q.loop == l.ID {
			loops = append(loops, inspectapi.TaskLoop{ID: l.ID, Name: l.Name})
		}
	}
	tasks, paging := f.page(q)
	return inspectapi.TasksAnswer{Header: a.Header, Paging: paging, Loops: loops, Tasks: tasks}
}

func recordedWaits(a *SnapshotAnswer, q *query) any {
	w := a.Waits
	if q.loop == "" {
		return w
	}
	inLoop := func(id string) bool { return strings.HasPrefix(id, q.loop+".") }
	w.Nodes = of(q, w.Nodes, func(n *inspectapi.WaitNode) string { loop, _, _ := strings.Cut(n.ID, "."); return loop })
	w.Edges = of(q, w.Edges, func(e *inspectapi.WaitEdge) string { loop, _, _ := strings.Cut(e.From, "."); return loop })
	w.Cycles, w.CycleDetails = [][]string{}, []inspectapi.CycleDetail{}
	for i, cycle := range a.Waits.Cycles {
		if inLoop(cycle[0]) {
			w.Cycles, w.CycleDetails = append(w.Cycles, cycle), append(w.CycleDetails, a.Waits.CycleDetails[i])
		}
	}
	return w
}

func recordedSockets(a *SnapshotAnswer, q *query) any {
	page, paging := recordedPageOf(q, a.Sockets, func(s *inspectapi.Socket) string { return s.Loop }, (*inspectapi.Socket).Texts)
	return inspectapi.SocketsAnswer{Header: a.Header, Paging: paging, Sockets: page}
}

func recordedRequests(a *SnapshotAnswer, q *query) any {
	page, paging := recordedPageOf(q, a.Requests, func(r *inspectapi.Request) string { return r.Loop }, (*inspectapi.Request).Texts)
	return inspectapi.RequestsAnswer{Header: a.Header, Paging: paging, Requests: page}
}

func recordedObjects(a *SnapshotAnswer, q *query) any {
	page, paging := recordedPageOf(q, a.Objects, func(o *inspectapi.SyncObject) string { return o.Loop }, (*inspectapi.SyncObject).Texts)
	return inspectapi.SyncAnswer{Header: a.Header, Paging: paging, Objects: page}
}

func recordedEnded(a *SnapshotAnswer, q *query) any {
	page, paging := recordedPageOf(q, a.Ended, func(t *inspectapi.EndedTask) string { return t.Loop }, (*inspectapi.EndedTask).Texts)
	return inspectapi.EndedAnswer{Header: a.Header, Paging: paging, Tasks: page}
}

func recordedBlocked(a *SnapshotAnswer, q *query) any {
	page, paging := recordedPageOf(q, a.Blocked, func(b *inspectapi.Blocked) string { return b.Loop }, (*inspectapi.Blocked).Texts)
	return inspectapi.BlockedAnswer{Header: a.Header, Paging: paging, Blocked: page}
}

// recordedPageOf returns the page of rows that a query selects by loop and text.
func recordedPageOf[T any](q *query, rows []T, loop func(*T) string, texts func(*T) []string) ([]T, inspectapi.Paging) {
	rows = of(q, rows, loop)
	return pageOf(q, keep(rows, func(row *T) bool { return q.text == "" || q.found(texts(row)...) }), len(rows))
}

// of returns the rows of the loop that a query selects. It never returns nil.
func of[T any](q *query, rows []T, loop func(*T) string) []T {
	return keep(rows, func(row *T) bool { return q.loop == "" || q.loop == loop(row) })
}

// keep returns the rows that satisfy a condition. It never returns nil.
func keep[T any](rows []T, which func(*T) bool) []T {
	kept := []T{}
	for i := range rows {
		if which(&rows[i]) {
			kept = append(kept, rows[i])
		}
	}
	return kept
}
