package inspect

// connected is a strongly connected component of a graph: every node of it can be reached
// from every other.
type connected struct{ nodes []string }

// components returns the strongly connected components of a graph by their nodes. It is
// Tarjan's algorithm with a stack of its own: a chain of waits can be as long as there are
// tasks.
func components(next map[string][]string) map[string]*connected {
	t := &tarjan{next: next, index: map[string]int{}, low: map[string]int{}, of: map[string]*connected{}}
	for node := range next {
		if t.index[node] == 0 {
			t.visit(node)
		}
	}
	return t.of
}

type tarjan struct {
	next  map[string][]string
	index map[string]int // in the order of visits, from 1
	low   map[string]int // the least index that is known to be reachable
	open  []string       // visited, and in no component yet
	of    map[string]*connected
}

// visit visits the nodes that can be reached from a node.
func (t *tarjan) visit(first string) {
	type frame struct {
		node string
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

func (t *tarjan) enter(node string) {
	t.index[node] = len(t.index) + 1
	t.low[node] = t.index[node]
	t.open = append(t.open, node)
}

// close makes a component of the nodes that were visited since node.
func (t *tarjan) close(node string) {
	c := &connected{}
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
