package tidy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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

// TestDrawingOfTheImports: nothing imports in a circle, in Go, C or Python. With -v it prints a
// drawing: each package, part of the C code or module, with what it imports. The number is its
// level, and everything that it imports has a lower one. Tests and examples are left out.
func TestDrawingOfTheImports(t *testing.T) {
	atRoot(t)
	var b strings.Builder
	for _, language := range []struct {
		name string
		g    graph
	}{{"Go", goImports(t)}, {"C, in python/src", cUses(t)}, {"Python", pythonImports(t)}} {
		if _, circle := language.g.levels(); circle != nil {
			t.Errorf("%s: a circle: %s", language.name, strings.Join(circle, " → "))
		}
		b.WriteString("\n" + language.name + "\n\n")
		language.g.draw(&b)
	}
	t.Log(b.String())
}

// TestLoopInCKnowsNoServer: what a loop needs of its server is in the struct Service.
func TestLoopInCKnowsNoServer(t *testing.T) {
	atRoot(t)
	for part, uses := range cUses(t) {
		if part != "module" && uses["asgi"] {
			t.Errorf("python/src: %s uses asgi", part)
		}
	}
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

// cParts are the parts of python/src by the beginning of a file's name. A part is what a package is
// in Go: its files may use each other.
var cParts = []struct{ prefix, part string }{
	{"asgi", "asgi"}, {"golib", "golib"}, {"golog", "golib"}, {"gostart", "golib"}, {"inspect", "golib"},
	{"handle", "callbacks"}, {"timers", "callbacks"}, {"stream", "streams"}, {"watchdog", "watchdog"}, {"loops", "loops"},
	{"loop", "loop"}, {"poll", "loop"}, {"watch", "loop"}, {"transport", "loop"}, {"world", "loop"},
}

// cPart returns the part of a file. A file that is not listed is a part of its own.
func cPart(file string) string {
	for _, p := range cParts {
		if strings.HasPrefix(file, p.prefix) {
			return p.part
		}
	}
	return strings.TrimSuffix(file, ".c")
}

var (
	cNoise = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"`)
	// cGlobal is a function or a variable that other files can use: it is at the beginning of a
	// line, and not static.
	cGlobal = regexp.MustCompile(`(?m)^[A-Za-z_][\w \*]*?\b(\w+)\s*(?:\([^;{}]*\)\s*\{|(?:\[[^\]\n]*\])?\s*(?:=|;))`)
	cWord   = regexp.MustCompile(`\b[A-Za-z_]\w*\b`)
)

// cUses returns, for each part of the C code, the parts that it uses functions and variables of.
func cUses(t *testing.T) graph {
	files, err := filepath.Glob("python/src/*.c")
	if err != nil || len(files) == 0 {
		t.Fatalf("no C files: %v", err)
	}
	texts, owner := map[string]string{}, map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		part := cPart(filepath.Base(file))
		clean := cNoise.ReplaceAllString(string(text), "")
		texts[part] += clean
		for _, found := range cGlobal.FindAllStringSubmatch(clean, -1) {
			first, _, _ := strings.Cut(found[0], " ")
			if !slices.Contains([]string{"static", "typedef", "extern", "enum", "return"}, first) {
				owner[found[1]] = part
			}
		}
	}
	g := graph{}
	for part, text := range texts {
		g.add(part, "")
		for _, word := range cWord.FindAllString(text, -1) {
			g.add(part, owner[word])
		}
	}
	return g
}

var (
	pyFrom   = regexp.MustCompile(`(?m)^\s*from (\.*)([\w.]*) import \(?([^#\n]*)`)
	pyImport = regexp.MustCompile(`(?m)^\s*import (spindle[\w.]*)`)
	pyText   = regexp.MustCompile(`(?s)""".*?"""`)
)

// pythonUp are imports inside of a function that point up, with the reason.
var pythonUp = map[string]string{
	"spindle.sim.workers": "spindle.sim.testing", // a process that was started for a test continues in its module
}

// pythonImports returns the imports of the modules, those inside of functions included.
func pythonImports(t *testing.T) graph {
	files := map[string]string{}
	if err := filepath.WalkDir("python/spindle", func(path string, d os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".py" {
			name := strings.TrimSuffix(strings.ReplaceAll(strings.TrimPrefix(filepath.ToSlash(path), "python/"), "/", "."), ".py")
			files[strings.TrimSuffix(name, ".__init__")] = path
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	g := graph{}
	for name, path := range files {
		g.add(name, "")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code := pyText.ReplaceAllString(string(text), "")
		for _, found := range pyImport.FindAllStringSubmatch(code, -1) {
			if files[found[1]] != "" {
				g.add(name, found[1])
			}
		}
		for _, found := range pyFrom.FindAllStringSubmatch(code, -1) {
			base := found[2]
			if dots := len(found[1]); dots > 0 {
				steps := strings.Split(name, ".")
				if filepath.Base(path) != "__init__.py" {
					steps = steps[:len(steps)-1]
				}
				base = strings.Trim(strings.Join(steps[:len(steps)-dots+1], ".")+"."+found[2], ".")
			}
			for item := range strings.SplitSeq(found[3], ",") {
				item, _, _ = strings.Cut(strings.Trim(item, " ()"), " ")
				switch full := base + "." + item; {
				case pythonUp[name] == base:
				case files[full] != "":
					g.add(name, full)
				case full == "spindle._core":
				case files[base] != "":
					g.add(name, base)
				}
			}
		}
	}
	return g
}
