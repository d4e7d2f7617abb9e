package spindle

import (
	"context"
	"slices"
	"time"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/probe"
)

// walk visits all tasks of a loop in parts, for an inspector. It visits the tasks of a
// scope, then the scopes inside it. Between two parts the loop runs, and any task or scope
// may end. So a walk keeps its place with nodes of its own in the lists: one among the tasks
// of the present scope, and for each level an empty scope behind the one that it is in.
//
// A task that moves to another scope between two parts could be missed, so moved remembers
// it.
type walk struct {
	s      *sched
	number uint16
	newest uint64        // the last task that was started before the walk
	runs   []*run        // to visit
	levels []*Scope      // the places among scopes, outermost first
	in     *Scope        // its tasks are being visited; nil between two scopes
	place  node          // among them
	strays []stray       // tasks that have moved
	now    time.Duration // when the present part began
	info   probe.Task

	lots map[*node]*node // the heads of queues, by nodes in them; valid during one part
	lot  *node           // the head of the queue in which the task that was described last waits
}

// stray is a task that has moved to another scope during a walk.
type stray struct {
	t  *Task
	id uint64
}

// WalkTasks begins a walk. A walk that is in progress ends.
func (s *sched) WalkTasks() probe.TaskWalk {
	if s.walk != nil {
		s.walk.End()
	}
	if s.walked++; s.walked == 0 {
		s.walked = 1 // no walk has the number 0
	}
	if r := s.record; r != nil {
		r.last, r.kept = nil, r.last
	}
	s.walk = &walk{s: s, number: s.walked, newest: s.started, runs: append([]*run(nil), s.runs...)}
	return s.walk
}

// End ends the walk.
func (w *walk) End() {
	w.place.remove()
	for _, place := range w.levels {
		place.unlink()
	}
	w.levels, w.in, w.runs, w.strays = nil, nil, nil, nil
	if w.s.walk == w {
		w.s.walk = nil
	}
}

// moved is called when t leaves its scope for another one.
func (w *walk) moved(t *Task) {
	if t.walked != w.number && t.id <= w.newest {
		w.strays = append(w.strays, stray{t, t.id})
	}
}

// checkEvery is after how many tasks a walk asks whether it is enough.
const checkEvery = 16

// Next visits further tasks.
func (w *walk) Next(enough func() bool, visit func(*probe.Task)) (more bool) {
	if w.s.walk != w {
		return false
	}
	clear(w.lots)
	w.now = w.s.l.Time() // tasks may have changed their state in this turn
	n := 0
	full := func() bool {
		n++
		return n%checkEvery == 0 && enough()
	}
	for len(w.strays) > 0 {
		last := w.strays[len(w.strays)-1]
		w.strays = w.strays[:len(w.strays)-1]
		if last.t.id == last.id && last.t.inScope.next != nil {
			w.visit(last.t, visit)
		}
		if full() {
			return true
		}
	}
	for {
		if w.in != nil {
			if !w.visitTasks(full, visit) {
				return true
			}
			if w.in.first != nil {
				w.levels = append(w.levels, w.in.openPlace())
			}
			w.in = nil
		}
		if !w.nextScope() {
			w.End()
			return false
		}
		if full() {
			return true
		}
	}
}

// visitTasks visits the tasks of the present scope. It reports whether it has visited all.
func (w *walk) visitTasks(full func() bool, visit func(*probe.Task)) bool {
	for n := w.place.next; n != &w.in.tasks.root; n = n.next {
		w.visit(n.t, visit)
		if full() {
			w.place.remove()
			w.place.pushAfter(n)
			return false
		}
	}
	w.place.remove()
	return true
}

// nextScope makes the next scope the present one. It reports whether there is one.
func (w *walk) nextScope() bool {
	for len(w.levels) > 0 {
		place := w.levels[len(w.levels)-1]
		if next := place.behind; next != nil {
			place.unlink()
			place.linkBehind(next)
			w.enter(next)
			return true
		}
		place.unlink()
		w.levels = w.levels[:len(w.levels)-1]
	}
	if len(w.runs) == 0 {
		return false
	}
	w.enter(w.runs[0].root.scope)
	w.runs = w.runs[1:]
	return true
}

// enter makes sc the present scope.
func (w *walk) enter(sc *Scope) {
	w.in = sc
	if sc.tasks.root.next == nil {
		sc.tasks.root.next, sc.tasks.root.prev = &sc.tasks.root, &sc.tasks.root
	}
	w.place.pushAfter(&sc.tasks.root)
}

// openPlace makes an empty scope before all scopes inside sc.
func (sc *Scope) openPlace() *Scope {
	place := sc.run.open(context.Background())
	place.parent, place.behind = sc, sc.first
	sc.first.before, sc.first = place, place
	return place
}

// linkBehind puts sc, which is in no list, behind one of its siblings.
func (sc *Scope) linkBehind(sibling *Scope) {
	sc.before, sc.behind = sibling, sibling.behind
	if sc.behind != nil {
		sc.behind.before = sc
	} else {
		sc.parent.last = sc
	}
	sibling.behind = sc
}

// visit visits a task, unless the walk has done so before.
func (w *walk) visit(t *Task, visit func(*probe.Task)) {
	if t == nil || t.walked == w.number {
		return
	}
	t.walked = w.number
	w.info, w.lot = probe.Task{}, nil
	w.describe(t, &w.info)
	if r := w.s.record; r != nil {
		r.labelWaiting(t)
		if r.pins {
			r.pin(t, w.lot, w.info.WaitsOn)
		}
	}
	visit(&w.info)
}

// describe describes a task for an inspector.
func (w *walk) describe(t *Task, p *probe.Task) {
	n, r := t.nursery, t.nursery.scope.run
	p.ID, p.Name, p.Code, p.Ref = t.id, t.name, t.codeOf(), t
	if p.Name == "" && t.own != nil {
		if named, ok := t.own.values.(interface{ TaskName() string }); ok {
			p.Name = named.TaskName()
		}
	}
	if n.owner != nil {
		p.Parent = n.owner.id
	}
	p.Nursery, p.Scope = identify(n), identify(t.scope)
	p.Service, p.Joined = r.service, n.joining != nil
	p.Deadline = t.scope.earliest()
	if by := t.scope.canceledBy; by != nil {
		p.Cancelled = by.canceled
	}
	if from, ok := r.origins[t]; ok {
		p.Code, p.Started = from.code, from.callers
	} else if rec := t.scope.s.record; rec != nil {
		p.Started = rec.origins[t]
	}
	if c := t.co; c != nil {
		p.State, p.Goroutine, p.Priority = probeStates[c.State()], c.Goroutine(), uint8(c.Lane())
		p.Accounted = c.Account(w.now, &p.Account)
		if p.State == probe.Waiting {
			w.describeWait(t, p)
		}
		if p.Accounted {
			p.WaitsSince = max(p.WaitsSince, p.Account.Changed) // the wait itself knows only its turn
		}
	}
}

var probeStates = [...]probe.State{coro.Idle: probe.Fresh, coro.Ready: probe.Ready, coro.Running: probe.Running, coro.Waiting: probe.Waiting}

// describeWait describes the wait of a task.
func (w *walk) describeWait(t *Task, p *probe.Task) {
	what, since, ab := t.co.Wait()
	p.WaitsFor, p.WaitsSince = what, since
	if other := t.awaits(); other != nil {
		p.WaitsOnTask = other.id
	}
	if lock, ok := ab.(interface{ Holder() coro.Ref }); ok {
		if b, _ := lock.Holder().Body().(*body); b != nil {
			p.WaitsOnTask = b.id
		}
	}
	if lock, ok := ab.(interface{ Holders() []*Task }); ok {
		for _, holder := range lock.Holders() {
			p.Holders = append(p.Holders, holder.id)
		}
	}
	if lock, ok := ab.(interface{ Readers() []coro.Ref }); ok {
		for _, reader := range lock.Readers() {
			if b, _ := reader.Body().(*body); b != nil {
				p.Holders = append(p.Holders, b.id)
			}
		}
	}
	if len(p.Holders) > 0 {
		slices.Sort(p.Holders)
		p.Holders = slices.Compact(p.Holders)
		p.Holders = p.Holders[:min(len(p.Holders), maxHolders)]
	}
	if in, ok := ab.(*lotWait); ok {
		w.lot = w.lotOf(&in.inLot)
		p.Lot = identify(w.lot)
		return
	}
	p.WaitsOn, _ = ab.(probe.Object)
}

// maxHolders is the number of holders of an object that an inspector shows.
const maxHolders = 16

// maxLotSteps bounds the search for the Lot of a task.
const maxLotSteps = 64

// lotOf returns the node at the head of a Lot's queue, which identifies the Lot, or nil if
// it is far. A task in a Lot does not know the Lot, so that waiting takes less memory.
// Tasks mostly wait in the order in which the walk visits them, so that the search is one
// step from the task before.
func (w *walk) lotOf(n *node) *node {
	first := n
	for range maxLotSteps {
		if n.t == nil {
			break
		}
		if lot := w.lots[n]; lot != nil {
			n = lot
			break
		}
		if n = n.prev; n == nil {
			return nil
		}
	}
	if n.t != nil {
		return nil
	}
	if w.lots == nil {
		w.lots = make(map[*node]*node)
	}
	w.lots[first] = n
	return n
}

// earliest returns the earliest deadline that is in force in the scope. See peek for its
// other caller.
//
//go:norace
func (sc *Scope) earliest() time.Duration {
	first := int64(noDeadline)
	for at := sc; at != nil; at = at.parent {
		first = min(first, at.deadline.Load())
		if at.shielded.Load() {
			break
		}
	}
	return time.Duration(first)
}
