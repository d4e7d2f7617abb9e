// Package tidy_test holds the module to its own rules: which package may import which,
// what may be called where, how large files may be, what is documented, which names are
// exported, and how the prose reads. The rules are data.
package tidy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// atRoot changes to the root of the module, where each of the tests runs. TestMain cannot do
// it: the go command does not notice that, looks for the files that the tests read in this
// directory, and returns a cached result when they have changed.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

// source is a Go file of the module.
type source struct {
	path   string // slashes, from the root
	dir    string
	test   bool
	text   []byte
	syntax *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed reads and parses the files once for all tests.
var parsed = sync.OnceValues(func() (all []source, err error) {
	if _, err := os.Stat("go.mod"); err != nil {
		return nil, err // a test that does not call atRoot would find nothing to complain about
	}
	fset := token.NewFileSet()
	err = filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(p)) {
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
	return all, err
})

// isModule reports whether a directory is a module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// within reports whether file is one of the places, or lies in one that ends in a slash.
func within(file string, places []string) bool {
	return slices.ContainsFunc(places, func(p string) bool {
		return p == file || strings.HasSuffix(p, "/") && strings.HasPrefix(file, p)
	})
}
