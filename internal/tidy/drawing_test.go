package tidy_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// graph has the imports of each node.
type graph map[string]map[string]bool

func (g graph) add(from, to string) {
	if g[from] == nil {
		g[from] = map[string]bool{}
	}
	if to != "" && to != from {
		g[from][to] = true
	}
}

// levels returns how far each node is from the bottom: one more than what it imports. It
// returns a circle if there is one.
func (g graph) levels() (level map[string]int, circle []string) {
	level = map[string]int{}
	var path []string
	var visit func(node string) int
	visit = func(node string) int {
		if at := slices.Index(path, node); at >= 0 {
			if circle == nil {
				circle = append(slices.Clone(path[at:]), node)
			}
			return 0
		}
		if n, ok := level[node]; ok {
			return n
		}
		path = append(path, node)
		n := 0
		for _, to := range slices.Sorted(maps.Keys(g[node])) {
			n = max(n, visit(to)+1)
		}
		path = path[:len(path)-1]
		level[node] = n
		return n
	}
	for _, node := range slices.Sorted(maps.Keys(g)) {
		visit(node)
	}
	return level, circle
}

// draw writes the nodes from the top to the bottom. All that a node imports is below it.
func (g graph) draw(b *strings.Builder) {
	level, _ := g.levels()
	nodes := slices.SortedFunc(maps.Keys(g), func(x, y string) int {
		if level[x] != level[y] {
			return level[y] - level[x]
		}
		return strings.Compare(x, y)
	})
	width := 0
	for _, node := range nodes {
		width = max(width, len(node))
	}
	last := -1
	for _, node := range nodes {
		mark := "  "
		if level[node] != last {
			mark = fmt.Sprintf("%2d", level[node])
		}
		last = level[node]
		line := fmt.Sprintf("%s  %-*s  %s", mark, width, node, strings.Join(slices.Sorted(maps.Keys(g[node])), " "))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// TestDrawingOfTheImports: nothing imports in a circle. With -v it prints a
// drawing: each package with what it imports. The number is its
// level, and everything that it imports has a lower one. Tests and examples are left out.
func TestDrawingOfTheImports(t *testing.T) {
	atRoot(t)
	var b strings.Builder
	for _, language := range []struct {
		name string
		g    graph
	}{{"Go", goImports(t)}} {
		if _, circle := language.g.levels(); circle != nil {
			t.Errorf("%s: a circle: %s", language.name, strings.Join(circle, " → "))
		}
		b.WriteString("\n" + language.name + "\n\n")
		language.g.draw(&b)
	}
	t.Log(b.String())
}

func TestCircleIsFound(t *testing.T) {
	g := graph{}
	for _, arrow := range []string{"a b", "b c", "c b", "d a"} {
		from, to, _ := strings.Cut(arrow, " ")
		g.add(from, to)
	}
	if _, circle := g.levels(); !slices.Equal(circle, []string{"b", "c", "b"}) {
		t.Errorf("found %q", circle)
	}
}

func goImports(t *testing.T) graph {
	g := graph{}
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.dir, "examples") || strings.HasPrefix(s.dir, "docs") {
			continue
		}
		g.add(s.dir, "")
		for _, im := range s.syntax.Imports {
			name, _ := strconv.Unquote(im.Path.Value)
			if name == module {
				g.add(s.dir, ".")
			} else if ours, ok := strings.CutPrefix(name, module+"/"); ok {
				g.add(s.dir, ours)
			}
		}
	}
	return g
}
