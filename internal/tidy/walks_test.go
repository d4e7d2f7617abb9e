package tidy_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// walkRow is a row of a walk in ARCHITECTURE.md: its number, a function, and its file.
var walkRow = regexp.MustCompile("(?m)^\\| \\d+ \\| `([\\w.]+)`.* \\| `([\\w/.]+\\.go)` \\|$")

// TestWalksNameFunctionsThatExist checks the calls that ARCHITECTURE.md lists.
func TestWalksNameFunctionsThatExist(t *testing.T) {
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
