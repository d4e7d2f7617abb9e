package tidy_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/design/api.md anew")

// stability says what users may rely on, by package. Stable names do not change
// within a major version; young ones may.
var stability = []struct{ dir, level string }{
	{".", "stable"},
	{"loop", "stable"},
	{"cosync", "stable"},
	{"transport", "stable"},
	{"stream", "stable"},
	{"proc", "stable"},
	{"files", "young"},
	{"supervise", "young"},
	{"either", "young"},
	{"tracing", "young"},
	{"web", "young"},
	{"ws", "young"},
	{"relay", "young"},
	{"relay/gateway", "young"},
	{"relay/process", "young"},
	{"relay/relaytest", "young"},
	{"pyapp", "young"},
	{"inspect", "young"},
	{"sim", "young"},
}

// namesBefore is the number of names of each package at commit 00b4f82, before the
// surface was reduced.
var namesBefore = map[string]int{
	".": 114, "loop": 99, "cosync": 99, "transport": 88, "stream": 108, "proc": 23,
	"files": 18, "web": 35, "ws": 70, "sim": 110,
}

// beforeList is the heading of the list in docs/design/api.md. What precedes it is
// written by hand.
const beforeList = "## Names by package\n"

// The exported names of the module are a promise. A change to them is made on
// purpose: run this test with -update, and read the difference.
func TestExportedNamesAreListed(t *testing.T) {
	atRoot(t)
	listed := filepath.Join("docs", "design", "api.md")
	var b strings.Builder
	have, err := os.ReadFile(listed)
	if err != nil {
		t.Fatal(err)
	}
	introduction, _, found := strings.Cut(string(have), beforeList)
	if !found {
		t.Fatalf("%s has no heading %q", listed, beforeList)
	}
	b.WriteString(introduction + beforeList + "\n| package | before | names | stability |\n|---|---:|---:|---|\n")
	var lists strings.Builder
	total, then, now := 0, 0, 0
	for _, p := range stability {
		names := exported(t, p.dir)
		total += len(names)
		title := "spindle"
		if p.dir != "." {
			title = p.dir
		}
		earlier := "" // none for a package that did not exist
		if n := namesBefore[p.dir]; n > 0 {
			earlier = fmt.Sprint(n)
			then += n
			now += len(names)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", title, earlier, len(names), p.level)
		fmt.Fprintf(&lists, "\n## %s\n\n", title)
		for _, name := range names {
			fmt.Fprintf(&lists, "- `%s`\n", name)
		}
	}
	fmt.Fprintf(&b, "| **those that existed before** | **%d** | **%d** | |\n", then, now)
	fmt.Fprintf(&b, "| **all** | | **%d** | |\n%s", total, lists.String())
	if *update {
		if err := os.WriteFile(listed, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(have) != b.String() {
		t.Errorf("docs/design/api.md does not list today's exported names; if they are meant, run\n\tgo test ./internal/tidy -update\n%s",
			difference(string(have), b.String()))
	}
}

// TestEveryPublicPackageIsListed: the list is of all packages that users can import.
func TestEveryPublicPackageIsListed(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		if !s.test && isPublic(s.dir) && s.syntax.Name.Name != "main" && !listsPackage(s.dir) {
			t.Errorf("%s: package %s has no stability in api_test.go", s.path, s.dir)
		}
	}
}

func listsPackage(dir string) bool {
	for _, p := range stability {
		if p.dir == dir {
			return true
		}
	}
	return false
}

// documented returns the documentation of the package in dir.
func documented(t *testing.T, dir string) *doc.Package {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	pkg, err := doc.NewFromFiles(set, parsed, "x")
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// exported lists the exported names of the package in dir.
func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	pkg := documented(t, dir)
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			for _, name := range v.Names {
				if token.IsExported(name) {
					names = append(names, name)
				}
			}
		}
	}
	funcs := func(prefix string, fs []*doc.Func) {
		for _, f := range fs {
			names = append(names, prefix+f.Name)
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	funcs("", pkg.Funcs)
	for _, typ := range pkg.Types {
		names = append(names, typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
	}
	slices.Sort(names)
	return slices.Compact(names) // files of several systems declare the same
}

// difference lists the lines that only one of two texts has.
func difference(have, want string) string {
	in := func(text string) map[string]bool {
		lines := map[string]bool{}
		for line := range strings.Lines(text) {
			lines[line] = true
		}
		return lines
	}
	old, now := in(have), in(want)
	var b strings.Builder
	for line := range strings.Lines(have) {
		if !now[line] {
			b.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(want) {
		if !old[line] {
			b.WriteString("+ " + line)
		}
	}
	return b.String()
}
