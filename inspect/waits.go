package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

// ref is a node of the wait-for graph: a task, or an object that tasks wait for.
type ref struct {
	loop   *loopTasks
	object bool
	id     uint64
}

// ref returns the node of a task.
func (e *entry) ref() ref { return ref{loop: e.loop, id: e.ID} }

// other returns the node of another task of the same loop.
func (e *entry) other(id uint64) ref { return ref{loop: e.loop, id: id} }

// object returns the object that the task waits for, if there is one.
func (e *entry) object() (r ref, ok bool) {
	id := e.row.object.ID
	if e.byLot() {
		id = e.Lot
	}
	return ref{loop: e.loop, object: true, id: uint64(id)}, e.State == probe.Waiting && id != 0
}

// byLot reports whether the object that the task waits for is a Lot. The wait for a future
// is one for its task.
func (e *entry) byLot() bool { return e.Lot != 0 && e.WaitsOnTask == 0 }

// holders returns the tasks that hold what the task waits for.
func (r *row) holders() []uint64 {
	if r.WaitsOnTask != 0 {
		return []uint64{r.WaitsOnTask}
	}
	return r.Holders
}

// hasEdges reports whether edges go from the task.
func (e *entry) hasEdges() bool {
	_, ok := e.object()
	return ok || e.State == probe.Waiting && (e.WaitsOnTask != 0 || e.WaitsFor == joining)
}

// joining is what a task waits for that joins a nursery.
const joining = "nursery"

// eachEdge calls fn for every edge of the wait-for graph, with the task that waits. If
// leaves is false it leaves out edges to tasks that wait for nothing in the graph. An edge
// may come more than once.
func (f *forest) eachEdge(leaves bool, fn func(from, to ref, e *entry)) {
	wanted := func(e *entry, id uint64) bool {
		if leaves {
			return true
		}
		at := e.loop.find(id)
		return at >= 0 && f.entries[at].hasEdges()
	}
	for i := range f.entries {
		e := &f.entries[i]
		if !e.hasEdges() {
			continue
		}
		if object, ok := e.object(); ok {
			fn(e.ref(), object, e)
			for _, holder := range e.holders() {
				if wanted(e, holder) {
					fn(object, e.other(holder), e)
				}
			}
			continue
		}
		if e.WaitsOnTask != 0 && wanted(e, e.WaitsOnTask) {
			fn(e.ref(), e.other(e.WaitsOnTask), e)
		}
		if e.WaitsFor != joining {
			continue
		}
		for c := f.branches[i].first; c >= 0; c = f.branches[c].next {
			if child := &f.entries[c]; child.Joined && (leaves || child.hasEdges()) {
				fn(e.ref(), child.ref(), e)
			}
		}
	}
}

// cycles is the cycles of the wait-for graph.
type cycles struct {
	of    map[ref]*connected[ref] // the nodes of cycles
	paths [][]ref                 // a shortest cycle in each of their components
}

// findCycles finds the cycles: the strongly connected components with more than one node,
// and tasks that wait for themselves.
func (f *forest) findCycles() cycles {
	c := cycles{of: map[ref]*connected[ref]{}}
	next := map[ref][]ref{}
	var order []ref
	f.eachEdge(false, func(from, to ref, _ *entry) {
		edges := next[from]
		if edges == nil {
			order = append(order, from)
		}
		if n := len(edges); n == 0 || edges[n-1] != to {
			next[from] = append(edges, to)
		}
	})
	component := components(next)
	for node, in := range component {
		if len(in.nodes) > 1 || slices.Contains(next[node], node) {
			c.of[node] = in
		}
	}
	seen := map[*connected[ref]]bool{}
	for _, node := range order {
		if in := c.of[node]; in != nil && !seen[in] {
			seen[in] = true
			c.paths = append(c.paths, round(node, next, component))
		}
	}
	return c
}

// round returns a shortest cycle through a node of a component.
func round(from ref, next map[ref][]ref, component map[ref]*connected[ref]) []ref {
	before := map[ref]ref{}
	queue := []ref{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, to := range next[at] {
			if to == from {
				path := []ref{at}
				for at != from {
					at = before[at]
					path = append(path, at)
				}
				slices.Reverse(path)
				return path
			}
			if _, ok := before[to]; !ok && component[to] == component[from] {
				before[to] = at
				queue = append(queue, to)
			}
		}
	}
	return []ref{from}
}

// maxEdges is how many edges an answer has.
const maxEdges = 5000

// graph is what waits for what, as answers show it. Its nodes are tasks and synchronization
// objects.
type graph struct {
	f       *forest
	nodes   map[ref]*inspectapi.WaitNode
	edges   []inspectapi.WaitEdge
	objects map[ref]*inspectapi.SyncObject
	numbers map[*loopTasks]*numbering // until the graph is made
}

// newGraph makes the graph of a forest.
func newGraph(f *forest) *graph {
	g := &graph{f: f, nodes: map[ref]*inspectapi.WaitNode{}, objects: map[ref]*inspectapi.SyncObject{}, numbers: map[*loopTasks]*numbering{}}
	defer g.numbered()
	f.eachEdge(true, func(from, to ref, e *entry) {
		switch {
		case from.object:
			g.hold(g.object(from, e), from, to)
			return
		case to.object:
			g.wait(g.object(to, e), from, e.waited(e.loop.snap))
		}
		g.edge(from, to, e.WaitsFor, e.waited(e.loop.snap))
	})
	return g
}

// node returns the node of a task or an object that is known.
func (g *graph) node(r ref) *inspectapi.WaitNode {
	n := g.nodes[r]
	if n == nil {
		id := taskID(r.loop.id, r.id)
		n = &inspectapi.WaitNode{ID: id, Kind: "task", Name: "task " + id, Cycle: g.f.cycles.of[r] != nil}
		if at := r.loop.find(r.id); at >= 0 {
			n.Name = g.f.entries[at].name()
		}
		g.nodes[r] = n
	}
	return n
}

// object returns the object that a task waits for.
func (g *graph) object(r ref, e *entry) *inspectapi.SyncObject {
	o := g.objects[r]
	if o == nil {
		kind := e.row.object.Kind
		if e.byLot() {
			kind, _, _ = strings.Cut(e.WaitsFor, ".")
		}
		o = &inspectapi.SyncObject{
			ID: objectID(r.loop.id, 'o', uintptr(r.id)), Loop: r.loop.id, Kind: kind, Name: kind + " " + g.number(r),
			Waiters: []string{}, WaiterNames: []string{},
		}
		if e.row.object.Known {
			info := e.row.object // rows are used again
			o.Used = &info.Used
			if info.Capacity != probe.Unlimited {
				o.Capacity = &info.Capacity
			}
		}
		g.objects[r] = o
		g.nodes[r] = &inspectapi.WaitNode{ID: o.ID, Kind: kind, Name: o.Name, Cycle: g.f.cycles.of[r] != nil}
	}
	return o
}

// maxWaiters is how many waiters of an object have their ids in an answer, and namedWaiters
// how many have their names.
const maxWaiters, namedWaiters = 100, 10

func (g *graph) wait(o *inspectapi.SyncObject, task ref, waited int64) {
	o.Waiting++
	o.LongNS = max(o.LongNS, waited)
	if len(o.Waiters) < maxWaiters {
		o.Waiters = append(o.Waiters, g.node(task).ID)
	}
	if len(o.WaiterNames) < namedWaiters {
		o.WaiterNames = append(o.WaiterNames, g.node(task).Name)
	}
}

func (g *graph) hold(o *inspectapi.SyncObject, object, task ref) {
	if id := g.node(task).ID; !slices.Contains(o.Holders, id) {
		o.Holders, o.HolderNames = append(o.Holders, id), append(o.HolderNames, g.node(task).Name)
		g.edge(object, task, "held by", 0)
	}
}

func (g *graph) edge(from, to ref, what string, waited int64) {
	in := g.f.cycles.of[from]
	g.edges = append(g.edges, inspectapi.WaitEdge{From: g.node(from).ID, To: g.node(to).ID, What: what, ForNS: waited,
		Cycle: in != nil && in == g.f.cycles.of[to]})
}

func (h *handler) waits(q *query) (any, error) {
	began := now()
	f, _ := readForest(q.loop)
	defer f.release()
	a := f.graph().answer()
	a.Header = h.header(began)
	return a, nil
}

// answer returns the graph with at most maxEdges edges, those of cycles first, and their
// nodes.
func (g *graph) answer() inspectapi.WaitsAnswer {
	a := inspectapi.WaitsAnswer{Nodes: []inspectapi.WaitNode{}, Edges: []inspectapi.WaitEdge{}, Cycles: [][]string{}, CycleDetails: []inspectapi.CycleDetail{}}
	for _, path := range g.f.cycles.paths {
		var ids []string
		for _, r := range path {
			ids = append(ids, g.nodes[r].ID)
		}
		a.Cycles = append(a.Cycles, ids)
		a.CycleDetails = append(a.CycleDetails, g.detail(path))
	}
	edges := slices.Clone(g.edges)
	slices.SortStableFunc(edges, func(x, y inspectapi.WaitEdge) int {
		switch {
		case x.Cycle == y.Cycle:
			return cmp.Compare(y.ForNS, x.ForNS)
		case x.Cycle:
			return -1
		}
		return 1
	})
	a.Edges = append(a.Edges, edges[:min(len(edges), maxEdges)]...)
	a.More = len(edges) - len(a.Edges)
	byID := make(map[string]*inspectapi.WaitNode, len(g.nodes))
	for _, n := range g.nodes {
		byID[n.ID] = n
	}
	for _, e := range a.Edges {
		for _, id := range []string{e.From, e.To} {
			if n := byID[id]; n != nil {
				a.Nodes = append(a.Nodes, *n)
				delete(byID, id) // each once
			}
		}
	}
	return a
}

func (h *handler) sync(q *query) (any, error) {
	began := now()
	f, _ := readForest(q.loop)
	defer f.release()
	all, total := f.graph().sorted(q)
	page, paging := pageOf(q, all, total)
	return inspectapi.SyncAnswer{Header: h.header(began), Paging: paging, Objects: page}, nil
}

// sorted returns the objects that match, that with the longest wait first, and the number
// of all.
func (g *graph) sorted(q *query) (all []inspectapi.SyncObject, total int) {
	all = []inspectapi.SyncObject{}
	for _, o := range g.objects {
		if q.text == "" || q.found(o.Texts()...) {
			all = append(all, *o)
		}
	}
	slices.SortFunc(all, func(a, b inspectapi.SyncObject) int {
		return cmp.Or(cmp.Compare(b.LongNS, a.LongNS), cmp.Compare(a.ID, b.ID))
	})
	return all, len(g.objects)
}
