package tidy_test

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/format"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// signatureFile has the signatures of the exported functions, and the exported fields and
// methods of types. It is like the files of Go's own api directory.
var signatureFile = filepath.Join("internal", "tidy", "testdata", "api.txt")

// TestExportedSignaturesAreListed: a name that stays can still break its users.
func TestExportedSignaturesAreListed(t *testing.T) {
	atRoot(t)
	var b strings.Builder
	for _, p := range stability {
		for _, line := range signatures(t, p.dir) {
			b.WriteString(p.dir + ": " + line + "\n")
		}
	}
	if *update {
		if err := os.WriteFile(signatureFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(signatureFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s does not list today's exported signatures; if they are meant, run\n\tgo test ./internal/tidy -update\n%s",
			signatureFile, difference(string(have), b.String()))
	}
}

// signatures returns a line for each exported function, type, field and method of the package
// in dir.
func signatures(t *testing.T, dir string) (lines []string) {
	t.Helper()
	add := func(before string, node any) {
		lines = append(lines, before+oneLine(t, node))
	}
	funcs := func(fs []*doc.Func) {
		for _, f := range fs {
			f.Decl.Doc, f.Decl.Body = nil, nil
			add("", f.Decl)
		}
	}
	pkg := documented(t, dir)
	funcs(pkg.Funcs)
	for _, typ := range pkg.Types {
		funcs(typ.Funcs)
		funcs(typ.Methods)
		for _, spec := range typ.Decl.Specs {
			spec := spec.(*ast.TypeSpec)
			if fields := fieldsOf(spec.Type); fields != nil {
				for _, field := range fields.List {
					for _, name := range field.Names {
						add("type "+spec.Name.Name+", "+name.Name+" ", field.Type)
					}
					if field.Names == nil {
						add("type "+spec.Name.Name+", embedded ", field.Type)
					}
				}
				continue
			}
			spec.Doc, spec.Comment = nil, nil
			add("type ", spec)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines) // files of several systems declare the same
}

// fieldsOf returns the exported fields of a struct, or the methods of an interface. Package doc
// has removed the others.
func fieldsOf(typ ast.Expr) *ast.FieldList {
	switch typ := typ.(type) {
	case *ast.StructType:
		return typ.Fields
	case *ast.InterfaceType:
		return typ.Methods
	}
	return nil
}

// oneLine formats a node on one line.
func oneLine(t *testing.T, node any) string {
	t.Helper()
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), node); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
