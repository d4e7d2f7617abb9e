package inspect

import (
	"cmp"
	"slices"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

func (h *handler) ended(q *query) (any, error) {
	began := now()
	all, total := readEnded(q)
	page, paging := pageOf(q, all, total)
	return inspectapi.EndedAnswer{Header: h.header(began), Paging: paging, Tasks: page}, nil
}

// readEnded returns the ended tasks that match, the newest first, and the number of all.
func readEnded(q *query) (all []inspectapi.EndedTask, total int) {
	all = []inspectapi.EndedTask{}
	for _, s := range q.sources() {
		snap, _ := s.readTasks()
		if snap == nil {
			continue
		}
		snap.release() // the ended tasks are not in its rows
		for i := range snap.ended {
			total++
			one := snap.endedTask(s.id, i)
			one.AgoNS += int64(now() - snap.at)
			if q.text == "" || q.found(one.Texts()...) {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b inspectapi.EndedTask) int { return cmp.Compare(a.AgoNS, b.AgoNS) })
	return all, total
}

// endedTask makes the EndedTask of the i-th task that has ended, as of the snapshot.
func (snap *taskSnapshot) endedTask(loop string, i int) inspectapi.EndedTask {
	e := &snap.ended[i]
	f := functionAt(e.Code)
	one := inspectapi.EndedTask{
		ID: taskID(loop, e.ID), Loop: loop, Parent: taskID(loop, e.Parent),
		Name: cmp.Or(e.Name, f.name, "task"), Function: cmp.Or(f.place, f.name),
		Outcome: e.Outcome, Error: e.Error,
		AgoNS: int64(max(snap.clock-e.At, 0)),
	}
	if e.Known {
		one.Time = timeOf(&e.Account, snap)
		one.Time.AgeNS = int64(e.At - e.Account.Began)
	}
	return one
}

func (h *handler) blocked(q *query) (any, error) {
	began := now()
	all, total := readBlocked(q)
	page, paging := pageOf(q, all, total)
	return inspectapi.BlockedAnswer{Header: h.header(began), Paging: paging, Blocked: page}, nil
}

// describeBlocked describes a turn that took too long.
func (s *source) describeBlocked(b *probe.BlockedTurn) inspectapi.Blocked {
	one := inspectapi.Blocked{
		Loop: s.id, Name: s.l.Internal().Name(), At: b.At, ForNS: int64(b.For), Ended: b.Ended, Starved: b.Starved,
		Task: b.Task, Line: cmp.Or(b.Line, goid.Line(b.Stack)), Stack: string(b.Stack),
	}
	if !b.Ended {
		one.ForNS += int64(wallTime().Sub(b.At))
	}
	return one
}

// readBlocked returns the turns that took too long and match, the newest first, and the
// number of all.
func readBlocked(q *query) (all []inspectapi.Blocked, total int) {
	all = []inspectapi.Blocked{}
	for _, s := range q.sources() {
		turns, _ := s.l.Internal().BlockedTurns()
		for i := range turns {
			total++
			one := s.describeBlocked(&turns[i])
			if q.text == "" || q.found(one.Texts()...) {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b inspectapi.Blocked) int { return b.At.Compare(a.At) })
	return all, total
}
