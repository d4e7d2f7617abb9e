package spindle_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/spindleloop/spindle"

// mayImport is the architecture: what each package may import besides the
// standard library. A new arrow is a decision; write it here.
var mayImport = map[string][]string{
	".":                          {"internal/goid", "loop"},
	"internal/goid":              {},
	"internal/http1":             {},
	"internal/deflate":           {},
	"internal/leak":              {},
	"internal/tlsio":             {"internal/kernel"},
	"internal/tlstest":           {},
	"internal/wheel":             {},
	"internal/wsframe":           {},
	"internal/kernel":            {"golang.org/x/sys/unix"},
	"internal/kernel/kerneltest": {"internal/kernel"},
	"cosync":                     {".", "loop"},
	"internal/simnet":            {"internal/goid", "internal/kernel"},
	"internal/picture":           {"internal/simnet"},
	"sim":                        {".", "internal/goid", "internal/kernel", "internal/picture", "internal/simnet", "loop"},
	"loop":                       {"internal/goid", "internal/kernel", "internal/wheel"},
	"internal/sock":              {"internal/kernel", "loop"},
	"transport":                  {"internal/goid", "internal/kernel", "internal/sock", "internal/tlsio", "loop"},
	"transport/transporttest":    {"internal/kernel", "internal/sock", "internal/tlstest", "loop", "transport"},
	"stream":                     {".", "cosync", "internal/kernel", "internal/sock", "internal/tlsio", "loop"},
	"proc":                       {".", "internal/kernel", "loop", "stream", "golang.org/x/sys/unix"},
	"files":                      {".", "loop"},
	"internal/worlds":            {".", "sim", "stream"},
	"internal/mutants":           {},
	"sim/timeline":               {"internal/picture", "internal/simnet", "sim"},
	"ws":                         {".", "internal/deflate", "internal/http1", "internal/wsframe", "loop", "stream", "transport", "web"},
	"web":                        {".", "internal/http1", "loop", "stream", "transport"},
	"cmd/spindle":                {".", "cmd/spindle/demo", "cosync", "internal/kernel", "internal/worlds", "loop", "sim", "sim/timeline", "stream", "transport", "web", "golang.org/x/sys/unix"},
	"cmd/spindle/demo":           {".", "loop", "web", "ws"},

	// What users write, and so nothing that is internal to the module.
	"docs/guide":              {},
	"examples":                {},
	"examples/internal/tcp":   {".", "golang.org/x/sys/unix"},
	"examples/internal/trial": {},
	"examples/bank":           {".", "stream"},
	"examples/chat":           {".", "cosync", "examples/internal/tcp", "golang.org/x/sys/unix"},
	"examples/crawler":        {".", "cosync"},
	"examples/echo":           {".", "examples/internal/tcp", "golang.org/x/sys/unix"},
	"examples/lines":          {".", "stream"},
	"examples/mixed":          {".", "cosync", "loop"},
	"examples/producer":       {".", "cosync"},
	"examples/proxy":          {".", "stream"},
	"examples/redis":          {".", "loop", "stream"},
	"examples/retry":          {"."},
	"examples/rooms":          {".", "cosync", "stream"},
	"examples/shutdown":       {".", "cosync"},
	"examples/tlsclient":      {".", "stream"},
	"examples/udpecho":        {".", "stream"},
	"examples/webchat":        {".", "web", "ws"},
}

// onlyIn is where a call may stand: a folder (with a slash at the end), a file,
// or nowhere. Tests are held to it only where the rule says so.
var onlyIn = []struct {
	call    string // package.Function
	tests   bool   // the rule is for tests too
	allowed []string
	why     string
}{
	{"time.Now", false, []string{"internal/kernel/", "examples/internal/trial/", "sim/bubble.go", "cmd/", "ws/conn.go"}, "the kernel's Clock tells the time, so that it can be simulated"},
	{"time.Since", false, []string{"internal/kernel/", "sim/bubble.go", "cmd/"}, "the kernel's Clock tells the time, so that it can be simulated"},
	{"time.Sleep", true, []string{"cmd/spindle/bench_wait.go", "cmd/spindle/demo/demo.go", "sim/stall_test.go"}, "sleeping hides a condition to wait for"},
	{"time.After", true, nil, "a timer of the loop, or a condition"},
	{"time.Tick", true, nil, "a timer of the loop, or a condition"},
	{"time.AfterFunc", false, []string{"cmd/spindle/bench_timers.go", "sim/bubble.go", "sim/stall.go"}, "CallLater is the timer here"},
	{"time.NewTimer", false, []string{"loop/watchdog.go", "internal/leak/", "sim/bubble.go", "cmd/"}, "CallLater is the timer here; the watchdog must not depend on the loop it watches"},
	{"rand.Uint64", false, []string{"internal/kernel/"}, "the kernel's Rand is the source, so that it can be simulated"},
	{"net.Dial", false, nil, "sockets are the kernel's"},
	{"net.Listen", false, nil, "sockets are the kernel's"},
	{"log.Printf", true, nil, "errors are returned or handed to a handler"},
}

// goStatements are the files that may start goroutines.
var goStatements = []string{
	"internal/kernel/system.go",  // Workers
	"loop/run.go",                // finishes a Goexit
	"loop/watchdog.go",           // the watchdog
	"sched.go",                   // ends coroutines where no thread is locked
	"internal/simnet/process.go", // the same
	"sim/bubble.go",              // a test may end by Goexit in a bubble
	"sim/parallel.go",            // worlds of several seeds at a time
	"internal/goid/",             // looks at goroutines of its own, once
	"cmd/",
	"examples/mixed/main.go",   // shows how
	"examples/internal/trial/", // a process that is interrupted
}

// The most lines a file may have. Larger ones are listed with their size, which
// may only shrink.
const (
	mostLines     = 400
	mostTestLines = 400
)

var larger = map[string]int{}

// source is a Go file of the module.
type source struct {
	path   string // slashes, from the root
	dir    string
	test   bool
	text   []byte
	syntax *ast.File
}

func sources(t *testing.T) (all []source) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (p == "bench" || p == "compat" || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(p)
		all = append(all, source{slashed, path.Dir(slashed), strings.HasSuffix(p, "_test.go"), text, syntax})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImportsPointDownward(t *testing.T) {
	for _, s := range sources(t) {
		allowed, ok := mayImport[s.dir]
		if !ok {
			t.Errorf("%s: package %s is not in mayImport", s.path, s.dir)
			continue
		}
		if s.test {
			continue
		}
		for _, im := range s.syntax.Imports {
			name, _ := strconv.Unquote(im.Path.Value)
			if name == module {
				name = "."
			}
			name = strings.TrimPrefix(name, module+"/")
			first, _, _ := strings.Cut(name, "/")
			ours := name != strings.Trim(im.Path.Value, `"`)
			if (ours || strings.Contains(first, ".")) && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s, which is not below it", s.path, name)
			}
		}
	}
}

func TestCallsStandWhereTheyMay(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			for _, rule := range onlyIn {
				if rule.call == pkg.Name+"."+sel.Sel.Name && (rule.tests || !s.test) && !within(s.path, rule.allowed) {
					t.Errorf("%s uses %s: %s", s.path, rule.call, rule.why)
				}
			}
			return true
		})
	}
}

func TestGoroutinesStartWhereTheyMay(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok && !s.test && !within(s.path, goStatements) {
				t.Errorf("%s starts a goroutine; the kernel's Workers do that", s.path)
			}
			return true
		})
	}
}

func within(file string, places []string) bool {
	return slices.ContainsFunc(places, func(p string) bool {
		return p == file || strings.HasSuffix(p, "/") && strings.HasPrefix(file, p)
	})
}

func TestFilesStaySmall(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		lines := bytes.Count(s.text, []byte("\n"))
		most := mostLines
		if s.test {
			most = mostTestLines
		}
		listed, ok := larger[s.path]
		seen[s.path] = ok
		switch {
		case ok && lines <= most:
			t.Errorf("%s has %d lines now: take it off the list of larger files", s.path, lines)
		case ok && lines < listed:
			t.Errorf("%s has %d lines now, fewer than the %d listed: list the new size", s.path, lines, listed)
		case ok && lines > listed, !ok && lines > most:
			t.Errorf("%s has %d lines, more than %d: is it one thing?", s.path, lines, max(most, listed))
		}
	}
	for file := range maps.Keys(larger) {
		if !seen[file] {
			t.Errorf("%s is listed as larger but is gone", file)
		}
	}
}

func TestEveryExportedNameIsExplained(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && isPublic(s.dir) && exportedReceiver(d) && !saysItself(d.Name.Name) {
					t.Errorf("%s: %s has no doc comment", s.path, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: type %s has no doc comment", s.path, ts.Name.Name)
					}
				}
			}
		}
	}
}

func isPublic(dir string) bool {
	return !within(dir+"/", []string{"internal/", "cmd/", "examples/", "docs/"})
}

// saysItself are methods whose meaning is fixed by the language's interfaces.
func saysItself(name string) bool { return name == "Error" || name == "String" }

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// TestEveryPublicPackageHasARunningExample wants an Example with output.
func TestEveryPublicPackageHasARunningExample(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t) {
		if s.dir != "." && isPublic(s.dir) {
			has[s.dir] = has[s.dir] || s.test && bytes.Contains(s.text, []byte("func Example")) && bytes.Contains(s.text, []byte("// Output:"))
		}
	}
	for dir, ok := range has {
		if !ok {
			t.Errorf("package %s has no example that runs", dir)
		}
	}
}

// namesAMachine finds home folders, and the hosts of package registries.
var namesAMachine = regexp.MustCompile(`/home/\w|/root/|/Users/\w|proxy\.golang\.org|registry\.npmjs|deb\.debian\.org`)

func TestNoFileNamesAMachine(t *testing.T) {
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "results" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(p) {
		case ".pgo", ".test", ".prof", ".svg":
			return nil
		}
		if p == "arch_test.go" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err == nil && namesAMachine.Match(text) {
			t.Errorf("%s names a path of a machine or a registry's host: %q", p, namesAMachine.Find(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
