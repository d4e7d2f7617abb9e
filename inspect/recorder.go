package inspect

import (
	"time"

	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// Internal returns a recorder for package sim, which has sim.World.Inspect and
// sim.World.InspectEvery. It is not for other code.
func Internal() *recorder { return new(recorder) }

// recorder takes snapshots of loops that are suspended.
//
// A snapshot depends only on what the loops have done. Where other snapshots identify
// objects by their addresses, those of a recorder number them in the order in which they
// were first seen.
type recorder struct {
	sources map[*loop.Loop]*source
	numbers map[uintptr]uintptr // of objects in the last snapshot, by their address
	next    uintptr
}

// Attach turns accounting of tasks on for a loop. It runs on the loop, or while the loop is
// suspended.
func (r *recorder) Attach(l *loop.Loop) {
	l.Internal().EachValue(func(v any) {
		if tasks, ok := v.(probe.Tasks); ok {
			tasks.Attach(true)
			tasks.Pin()
		}
	})
}

// Take takes a snapshot of loops. The time is the one that has passed since begin. Describe returns
// the identity of a loop, and whether its host is paused.
func (r *recorder) Take(begin time.Time, at time.Duration, loops []*loop.Loop, describe func(*loop.Loop) (id string, paused bool)) *SnapshotAnswer {
	known := r.sources
	r.sources = make(map[*loop.Loop]*source) // closed loops are forgotten
	var all []capture
	for _, l := range loops {
		s := known[l]
		if s == nil {
			id, _ := describe(l)
			s = &source{id: id, l: l}
		}
		r.sources[l] = s
		l.Internal().Lend(func() {
			r.Attach(l)
			all = append(all, s.captureAt(at))
		})
	}
	r.number(all)
	a := assemble(all)
	a.TakenAt = begin.Add(at)
	a.Waits.Header = a.Header
	for i := range a.Loops {
		if _, paused := describe(loops[i]); paused {
			a.Loops[i].State = "paused"
		}
	}
	for i, n := 0, 0; i < len(all); i++ {
		for _, row := range all[i].sockets {
			age := int64(at - row.ends.seen)
			a.Sockets[n].AgeNS = &age
			n++
		}
	}
	return a
}

// captureAt reads a loop at a virtual time. The caller owns the loop.
func (s *source) captureAt(at time.Duration) capture {
	if s.vitals.at != at+1 { // 0 is never
		s.before = s.vitals
	}
	s.vitals = vitals{}
	s.vitals.read(s)
	s.vitals.at = at + 1
	c := capture{source: s, tasks: s.takeTasks()}
	known := s.sockets.ends
	sockets := newSocketWalk(known)
	sockets.finish(s)
	c.sockets, s.sockets.ends = sockets.rows, sockets.fresh
	for token, e := range s.sockets.ends {
		if known[token] == nil {
			e.seen = at
		}
	}
	return c
}

// number replaces the addresses of objects by numbers. The tasks keep the objects of the last
// snapshot (probe.Tasks.Pin), so an address that was in it belongs to the same object.
func (r *recorder) number(all []capture) {
	before := r.numbers
	r.numbers = make(map[uintptr]uintptr)
	number := func(address *uintptr) {
		if *address == 0 {
			return
		}
		n, ok := r.numbers[*address]
		if !ok {
			if n, ok = before[*address]; !ok {
				r.next++
				n = r.next
			}
			r.numbers[*address] = n
		}
		*address = n ^ uintptr(mask()) // objectID shows it without the mask
	}
	for _, c := range all {
		c.tasks.each(func(row *row) {
			number(&row.Nursery)
			number(&row.Scope)
			number(&row.Lot)
			number(&row.object.ID)
		})
		for i := range c.sockets {
			one := &c.sockets[i]
			one.Request.Scope = r.numbers[one.Request.Scope] ^ uintptr(mask()) // that of a task
			if one.Socket.Streams == nil {
				continue
			}
			for k := range one.Socket.Streams.All {
				scope := &one.Socket.Streams.All[k].Request.Scope
				*scope = r.numbers[*scope] ^ uintptr(mask())
			}
		}
	}
}
