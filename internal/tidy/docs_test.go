package tidy_test

import (
	"bytes"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryExportedNameIsExplained(t *testing.T) {
	atRoot(t)
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
	return !within(dir+"/", []string{"internal/", "cmd/", "examples/", "docs/", "python/"}) && !strings.Contains(dir, "/internal/")
}

// saysItself are methods with a meaning that the language's interfaces fix.
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
	atRoot(t)
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

// namesAMachine finds home folders, and the hosts of package registries. Each of its
// alternatives contains one of machineParts, which are quicker to look for.
var (
	namesAMachine = regexp.MustCompile(`/home/\w|/root/|/Users/\w|proxy\.golang\.org|registry\.npmjs|deb\.debian\.org`)
	machineParts  = []string{"/home/", "/root/", "/Users/", "proxy.golang.org", "registry.npmjs", "deb.debian.org"}
)

func mayNameAMachine(text []byte) bool {
	return slices.ContainsFunc(machineParts, func(part string) bool { return bytes.Contains(text, []byte(part)) })
}

func TestNoFileNamesAMachine(t *testing.T) {
	atRoot(t)
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "results" || d.Name() == "node_modules" || d.Name() == "build" {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(p) {
		case ".pgo", ".test", ".prof", ".svg", ".so", ".pyc":
			return nil
		}
		if p == filepath.Join("internal", "tidy", "docs_test.go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err == nil && mayNameAMachine(text) && namesAMachine.Match(text) {
			t.Errorf("%s names a path of a machine or a registry's host: %q", p, namesAMachine.Find(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
