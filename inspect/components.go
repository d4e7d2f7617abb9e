package inspect

// connected is a strongly connected component of a graph: every node of it can be reached
// from every other.
type connected[N comparable] struct{ nodes []N }

// components returns the strongly connected components of a graph by their nodes. It is
// Tarjan's algorithm with a stack of its own: a chain of waits can be as long as there are
// tasks.
func components[N comparable](next map[N][]N) map[N]*connected[N] {
	t := &tarjan[N]{next: next, index: map[N]int{}, low: map[N]int{}, of: map[N]*connected[N]{}}
	for node := range next {
		if t.index[node] == 0 {
			t.visit(node)
		}
	}
	return t.of
}

type tarjan[N comparable] struct {
	next  map[N][]N
	index map[N]int // in the order of visits, from 1
	low   map[N]int // the least index that is known to be reachable
	open  []N       // visited, and in no component yet
	of    map[N]*connected[N]
}

// visit visits the nodes that can be reached from a node.
func (t *tarjan[N]) visit(first N) {
	type frame struct {
		node N
		edge int
	}
	t.enter(first)
	path := []frame{{first, 0}}
	for len(path) > 0 {
		at := &path[len(path)-1]
		if edges := t.next[at.node]; at.edge < len(edges) {
			to := edges[at.edge]
			at.edge++
			switch {
			case t.index[to] == 0:
				t.enter(to)
				path = append(path, frame{to, 0})
			case t.of[to] == nil:
				t.low[at.node] = min(t.low[at.node], t.index[to])
			}
			continue
		}
		node := at.node
		path = path[:len(path)-1]
		if len(path) > 0 {
			above := path[len(path)-1].node
			t.low[above] = min(t.low[above], t.low[node])
		}
		if t.low[node] == t.index[node] {
			t.close(node)
		}
	}
}

func (t *tarjan[N]) enter(node N) {
	t.index[node] = len(t.index) + 1
	t.low[node] = t.index[node]
	t.open = append(t.open, node)
}

// close makes a component of the nodes that were visited since node.
func (t *tarjan[N]) close(node N) {
	c := &connected[N]{}
	for {
		last := t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		c.nodes = append(c.nodes, last)
		t.of[last] = c
		if last == node {
			return
		}
	}
}
