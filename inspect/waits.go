package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/probe"
)

// maxEdges is how many edges an answer has.
const maxEdges = 5000

// graph is what waits for what. Its nodes are tasks and synchronization objects.
type graph struct {
	nodes   map[string]*WaitNode
	edges   []WaitEdge
	objects map[string]*SyncObject
	cycles  [][]string
}

func newGraph() *graph {
	return &graph{nodes: map[string]*WaitNode{}, objects: map[string]*SyncObject{}}
}

// add adds the waits of a loop.
func (g *graph) add(loop string, snap *taskSnapshot) {
	names := map[uint64]string{}
	joined := map[uint64][]*row{} // tasks that their parent waits for, by the parent
	snap.each(func(r *row) {
		names[r.ID] = cmp.Or(r.Name, functionAt(r.Code).name, "task")
		if r.Joined {
			joined[r.Parent] = append(joined[r.Parent], r)
		}
	})
	task := func(id uint64) string {
		name := taskID(loop, id)
		if g.nodes[name] == nil {
			g.nodes[name] = &WaitNode{ID: name, Kind: "task", Name: cmp.Or(names[id], "task "+name)}
		}
		return name
	}
	snap.each(func(r *row) {
		if r.State != probe.Waiting {
			return
		}
		waited := int64(max(snap.clock-r.WaitsSince, 0))
		if object := g.object(loop, r); object != nil {
			from := task(r.ID)
			g.wait(object, from, waited)
			g.edge(from, object.ID, r.WaitsFor, waited)
			for _, holder := range r.holders() {
				g.hold(object, task(holder))
			}
			return
		}
		if r.WaitsOnTask != 0 {
			g.edge(task(r.ID), task(r.WaitsOnTask), r.WaitsFor, waited)
		}
		if r.WaitsFor == "nursery" {
			for _, child := range joined[r.ID] {
				g.edge(task(r.ID), task(child.ID), r.WaitsFor, waited)
			}
		}
	})
}

// holders returns the tasks that hold what the task of the row waits for.
func (r *row) holders() []uint64 {
	if r.WaitsOnTask != 0 {
		return []uint64{r.WaitsOnTask}
	}
	return r.Holders
}

// object returns the object that the task of a row waits for, nil if there is none.
func (g *graph) object(loop string, r *row) *SyncObject {
	id, kind := r.object.ID, r.object.Kind
	if r.Lot != 0 && r.WaitsOnTask == 0 { // the wait for a future is one for its task
		id = r.Lot
		kind, _, _ = strings.Cut(r.WaitsFor, ".")
	}
	name := objectID(loop, 'o', id)
	if name == "" {
		return nil
	}
	o := g.objects[name]
	if o == nil {
		o = &SyncObject{ID: name, Loop: loop, Kind: kind, Waiters: []string{}}
		if r.object.Known {
			o.Used, o.Capacity = &r.object.Used, &r.object.Capacity
		}
		g.objects[name] = o
		g.nodes[name] = &WaitNode{ID: name, Kind: kind, Name: kind}
	}
	return o
}

// maxWaiters is how many waiters of an object are named.
const maxWaiters = 100

func (g *graph) wait(o *SyncObject, task string, waited int64) {
	o.Waiting++
	o.LongNS = max(o.LongNS, waited)
	if len(o.Waiters) < maxWaiters {
		o.Waiters = append(o.Waiters, task)
	}
}

func (g *graph) hold(o *SyncObject, task string) {
	if !slices.Contains(o.Holders, task) {
		o.Holders = append(o.Holders, task)
		g.edge(o.ID, task, "held by", 0)
	}
}

func (g *graph) edge(from, to, what string, waited int64) {
	g.edges = append(g.edges, WaitEdge{From: from, To: to, What: what, ForNS: waited})
}

// findCycles marks the nodes and edges of cycles: the strongly connected components with
// more than one node, and tasks that wait for themselves.
func (g *graph) findCycles() {
	next := map[string][]string{}
	for _, e := range g.edges {
		next[e.From] = append(next[e.From], e.To)
	}
	component := components(next)
	for id, c := range component {
		if len(c.nodes) > 1 || slices.Contains(next[id], id) {
			g.nodes[id].Cycle = true
		}
	}
	seen := map[*connected]bool{}
	for i := range g.edges {
		e := &g.edges[i]
		c := component[e.From]
		if c == component[e.To] && g.nodes[e.From].Cycle {
			e.Cycle = true
			if !seen[c] {
				seen[c] = true
				g.cycles = append(g.cycles, round(e.From, next, component))
			}
		}
	}
}

// round returns a shortest cycle through a node of a component.
func round(from string, next map[string][]string, component map[string]*connected) []string {
	before := map[string]string{}
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, to := range next[at] {
			if to == from {
				path := []string{at}
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
	return []string{from}
}

// mark marks the tasks that are in a cycle.
func (g *graph) mark(tasks []Task) {
	for i := range tasks {
		if n := g.nodes[tasks[i].ID]; n != nil {
			tasks[i].Cycle = n.Cycle
		}
	}
}

func (h *handler) waits(q *query) (any, error) {
	began := now()
	f, _ := readForest(q.loop)
	a := f.graph.answer()
	a.Header = h.header(began)
	return a, nil
}

// answer returns the graph with at most maxEdges edges, those of cycles first, and their
// nodes.
func (g *graph) answer() WaitsAnswer {
	a := WaitsAnswer{Nodes: []WaitNode{}, Edges: []WaitEdge{}, Cycles: g.cycles}
	if a.Cycles == nil {
		a.Cycles = [][]string{}
	}
	edges := slices.Clone(g.edges)
	slices.SortStableFunc(edges, func(x, y WaitEdge) int {
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
	used := map[string]bool{}
	for _, e := range a.Edges {
		for _, id := range []string{e.From, e.To} {
			if !used[id] {
				used[id] = true
				a.Nodes = append(a.Nodes, *g.nodes[id])
			}
		}
	}
	return a
}

func (h *handler) sync(q *query) (any, error) {
	began := now()
	f, _ := readForest(q.loop)
	all, total := f.graph.sorted(q)
	page, paging := pageOf(q, all, total)
	return SyncAnswer{Header: h.header(began), Paging: paging, Objects: page}, nil
}

// sorted returns the objects that match, that with the longest wait first, and the number
// of all.
func (g *graph) sorted(q *query) (all []SyncObject, total int) {
	all = []SyncObject{}
	for _, o := range g.objects {
		if q.text == "" || q.found(o.texts()...) {
			all = append(all, *o)
		}
	}
	slices.SortFunc(all, func(a, b SyncObject) int {
		return cmp.Or(cmp.Compare(b.LongNS, a.LongNS), cmp.Compare(a.ID, b.ID))
	})
	return all, len(g.objects)
}
