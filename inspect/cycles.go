package inspect

import (
	"strconv"
	"strings"
	"sync"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

// detail describes a cycle.
func (g *graph) detail(path []ref) inspectapi.CycleDetail {
	d := inspectapi.CycleDetail{Text: g.text(path)}
	for _, r := range path {
		at := r.loop.find(r.id)
		if r.object || at < 0 {
			continue
		}
		if e := &g.f.entries[at]; e.Deadline != probe.NoDeadline {
			left := int64(e.Deadline - e.loop.snap.clock)
			if d.DeadlineLeftNS == nil || left < *d.DeadlineLeftNS {
				d.DeadlineLeftNS = &left
			}
		}
	}
	return d
}

// text says what waits for what in a cycle. It begins and ends with the same task.
func (g *graph) text(path []ref) string {
	first := 0
	for path[first].object {
		first++
	}
	var b strings.Builder
	b.WriteString(g.node(path[first]).Name)
	for i := range path {
		from, to := path[(first+i)%len(path)], path[(first+i+1)%len(path)]
		switch {
		case from.object:
			b.WriteString(", held by ")
		default:
			if i > 0 {
				b.WriteString(", which")
			}
			b.WriteString(" waits for ")
			if !to.object && g.joins(from) {
				b.WriteString("its child ")
			}
		}
		b.WriteString(g.node(to).Name)
	}
	return b.String()
}

// joins reports whether a task waits for its children.
func (g *graph) joins(task ref) bool {
	at := task.loop.find(task.id)
	return at >= 0 && g.f.entries[at].WaitsFor == joining
}

// objectNumbers gives the synchronization objects of a loop numbers, in the order in which
// they were first seen. An object that no task waits for is forgotten.
type objectNumbers struct {
	mu   sync.Mutex
	of   map[uint64]int // guarded by mu
	next int            // guarded by mu
}

// numbering is the numbers of the objects that one graph has.
type numbering struct {
	all  *objectNumbers
	used map[uint64]int
}

// number returns the number of an object.
func (g *graph) number(object ref) string {
	n := g.numbers[object.loop]
	if n == nil {
		n = &numbering{object.loop.numbers, map[uint64]int{}}
		n.all.mu.Lock() // until numbered is called
		g.numbers[object.loop] = n
	}
	number, ok := n.all.of[object.id]
	if !ok {
		n.all.next++
		number = n.all.next
	}
	n.used[object.id] = number
	return strconv.Itoa(number)
}

// numbered ends the numbering of objects.
func (g *graph) numbered() {
	for _, n := range g.numbers {
		n.all.of = n.used
		n.all.mu.Unlock()
	}
	g.numbers = nil
}
