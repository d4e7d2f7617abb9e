package tidy_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// walkRow is a row of a walk in ARCHITECTURE.md: its number, a function, and its file.
var walkRow = regexp.MustCompile("(?m)^\\| \\d+ \\| `([\\w.]+)`.* \\| `([\\w/.]+\\.go)` \\|$")

// TestWalksNameFunctionsThatExist checks the calls that ARCHITECTURE.md lists.
func TestWalksNameFunctionsThatExist(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := walkRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 30 {
		t.Fatalf("found only %d rows of walks in ARCHITECTURE.md", len(rows))
	}
	declared := map[string]map[string]bool{}
	for _, row := range rows {
		name, file := row[1], row[2]
		if declared[file] == nil {
			declared[file] = functionsOf(t, file)
		}
		if !declared[file][name] {
			t.Errorf("ARCHITECTURE.md: %s has no function %s", file, name)
		}
	}
}

// parallelRow is a row of the table at the end of a guide page: a number, code of the page, a function and its file.
var parallelRow = regexp.MustCompile("(?m)^\\| \\d+ \\| .* \\| `([\\w.]+)` \\| `([\\w/.]+\\.go)` \\|$")

// TestTheLoopPageNamesFunctionsThatExist checks the places of Spindle that docs/guide/loop.md ends with.
func TestTheLoopPageNamesFunctionsThatExist(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/guide/loop.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := parallelRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 10 {
		t.Fatalf("found only %d rows", len(rows))
	}
	for _, row := range rows {
		if !functionsOf(t, row[2])[row[1]] {
			t.Errorf("docs/guide/loop.md: %s has no function %s", row[2], row[1])
		}
	}
}

// TestWalksStayShort: a walk has at most so many calls, in so many files.
func TestWalksStayShort(t *testing.T) {
	atRoot(t)
	limits := map[string]struct{ calls, files int }{
		"A byte, from readiness to stream.Read":       {15, 8},
		"A byte, from readiness to an inline handler": {22, 11},
		"A relay call over NATS":                      {24, 20},
	}
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		most, ok := limits[title]
		if !ok {
			continue
		}
		delete(limits, title)
		rows, files := walkRow.FindAllStringSubmatch(section, -1), map[string]bool{}
		for _, row := range rows {
			files[row[2]] = true
		}
		if len(rows) > most.calls || len(files) > most.files {
			t.Errorf("ARCHITECTURE.md: %s: %d calls in %d files, want at most %d and %d", title, len(rows), len(files), most.calls, most.files)
		}
	}
	for title := range limits {
		t.Errorf("ARCHITECTURE.md has no section %q", title)
	}
}

// goFile is the name of a Go file in a text, with or without its directory.
var goFile = regexp.MustCompile("`([\\w/]+\\.go)`")

// TestDesignPagesNameFilesThatExist in the module or in net/http.
func TestDesignPagesNameFilesThatExist(t *testing.T) {
	atRoot(t)
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "ARCHITECTURE.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range goFile.FindAllStringSubmatch(string(text), -1) {
			ours := slices.ContainsFunc(sources(t), func(s source) bool {
				return s.path == match[1] || strings.HasSuffix(s.path, "/"+match[1])
			})
			_, err := os.Stat(match[1]) // of another module
			if !ours && err != nil && !slices.Contains(filesOfNetHTTP, match[1]) {
				t.Errorf("%s: no file %s", page, match[1])
			}
		}
	}
}

// filesOfNetHTTP are files of net/http that the design pages name.
var filesOfNetHTTP = []string{"clientserver_test.go", "client_test.go", "fs_test.go", "responsecontroller_test.go", "serve_test.go", "transport_test.go"}

// functionsOf returns the functions that a file declares: methods as Type.Method and as
// Method alone.
func functionsOf(t *testing.T, file string) map[string]bool {
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return map[string]bool{"": true}
	}
	names := map[string]bool{}
	for _, decl := range syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		names[fn.Name.Name] = true
		if fn.Recv != nil {
			names[receiver(fn.Recv.List[0].Type)+"."+fn.Name.Name] = true
		}
	}
	return names
}

// receiver returns the name of a receiver's type, without its pointer and parameters.
func receiver(typ ast.Expr) string {
	switch at := typ.(type) {
	case *ast.StarExpr:
		return receiver(at.X)
	case *ast.IndexExpr:
		return receiver(at.X)
	case *ast.Ident:
		return at.Name
	}
	return ""
}

// TestEveryInternalPackageIsOnThePage: ARCHITECTURE.md names every package below internal,
// except for those inside one that it names.
func TestEveryInternalPackageIsOnThePage(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range mayImport {
		if name, ok := strings.CutPrefix(dir, "internal/"); ok {
			name, _, _ = strings.Cut(name, "/")
			if !bytes.Contains(text, []byte("internal/"+name+" ")) {
				t.Errorf("ARCHITECTURE.md does not name internal/%s", name)
			}
		}
	}
}
