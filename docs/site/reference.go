package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

const module = "github.com/spindleloop/spindle"

// packages are the public packages, in the order of the navigation.
var packages = []string{
	".", "loop", "cosync", "stream", "files", "proc", "transport", "web", "web/webgrpc", "ws", "relay",
	"relay/gateway", "relay/nats", "relay/process", "relay/relaytest", "pyapp", "inspect", "inspect/otel", "sim",
}

// reference writes a page for each package and an index, and returns their lines of the
// navigation.
func reference(root, dir string) (nav string, err error) {
	index := "# Packages\n\nThe same as `go doc` prints. [Every exported name](../design/api.md) on one page.\n\n| package | |\n|---|---|\n"
	nav = "    \"reference/index.md\",\n"
	for _, name := range packages {
		pkg, fset, err := load(root, name)
		if err != nil {
			return "", err
		}
		file := pageOf(name)
		if err := write(filepath.Join(dir, file), []byte(page(pkg, fset))); err != nil {
			return "", err
		}
		title := strings.TrimPrefix(pkg.ImportPath, module+"/")
		if name == "." {
			title = pkg.Name
		}
		index += fmt.Sprintf("| [%s](%s) | %s |\n", title, file, pkg.Synopsis(pkg.Doc))
		nav += fmt.Sprintf("    { %q = \"reference/%s\" },\n", title, file)
	}
	return nav, write(filepath.Join(dir, "index.md"), []byte(index))
}

// pageOf returns the file of a package's page.
func pageOf(name string) string {
	if name == "." {
		name = "spindle"
	}
	return strings.ReplaceAll(name, "/", "-") + ".md"
}

func load(root, name string) (*doc.Package, *token.FileSet, error) {
	dir := filepath.Join(root, name)
	found, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, file := range append(append(found.GoFiles, found.TestGoFiles...), found.XTestGoFiles...) {
		syntax, err := parser.ParseFile(fset, filepath.Join(dir, file), nil, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, syntax)
	}
	pkg, err := doc.NewFromFiles(fset, files, strings.TrimSuffix(module+"/"+name, "/."))
	return pkg, fset, err
}

// writer writes the page of a package.
type writer struct {
	bytes.Buffer
	pkg  *doc.Package
	fset *token.FileSet
}

func page(pkg *doc.Package, fset *token.FileSet) string {
	w := &writer{pkg: pkg, fset: fset}
	fmt.Fprintf(w, "# package %s\n\n```go\nimport %q\n```\n\n", pkg.Name, pkg.ImportPath)
	w.prose(pkg.Doc)
	w.examples(pkg.Examples)
	w.values("Constants", pkg.Consts)
	w.values("Variables", pkg.Vars)
	w.functions("##", pkg.Funcs)
	for _, t := range pkg.Types {
		w.declaration("##", "type "+t.Name, t.Name, t.Decl, t.Doc, t.Examples)
		for _, v := range append(t.Consts, t.Vars...) {
			w.code(v.Decl)
			w.prose(v.Doc)
		}
		w.functions("###", append(t.Funcs, t.Methods...))
	}
	return w.String()
}

func (w *writer) values(title string, values []*doc.Value) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(w, "## %s\n\n", title)
	for _, v := range values {
		for _, name := range v.Names {
			fmt.Fprintf(w, "<a id=%q></a>\n", name)
		}
		w.WriteString("\n")
		w.code(v.Decl)
		w.prose(v.Doc)
	}
}

func (w *writer) functions(level string, functions []*doc.Func) {
	for _, f := range functions {
		title, id := "func "+f.Name, f.Name
		if f.Recv != "" {
			id = strings.Trim(cmp.Or(f.Orig, f.Recv), "*") + "." + f.Name
			if receiver, _, generic := strings.Cut(id, "["); generic {
				id = receiver + "." + f.Name
			}
			title = "func (" + f.Recv + ") " + f.Name
		}
		w.declaration(level, title, id, f.Decl, f.Doc, f.Examples)
	}
}

func (w *writer) declaration(level, title, id string, decl ast.Decl, text string, examples []*doc.Example) {
	fmt.Fprintf(w, "%s %s {#%s}\n\n", level, strings.NewReplacer("*", `\*`, "[", `\[`).Replace(title), id)
	w.code(decl)
	w.prose(text)
	w.examples(examples)
}

// code writes a declaration, without its comment, which is written as prose.
func (w *writer) code(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.GenDecl:
		decl.Doc = nil
	case *ast.FuncDecl:
		decl.Doc = nil
	}
	w.block(decl)
}

func (w *writer) block(node any) {
	w.WriteString("```go\n")
	if err := format.Node(w, w.fset, node); err != nil {
		panic(err) // of syntax that was parsed
	}
	w.WriteString("\n```\n\n")
}

func (w *writer) prose(text string) {
	printer := w.pkg.Printer()
	printer.HeadingLevel = 3
	printer.DocLinkURL = w.url
	w.Write(printer.Markdown(w.pkg.Parser().Parse(text)))
	w.WriteString("\n")
}

// url returns the address of a name that a comment refers to.
func (w *writer) url(link *comment.DocLink) string {
	id := link.Name
	if link.Recv != "" {
		id = link.Recv + "." + id
	}
	if id != "" {
		id = "#" + id
	}
	name, ours := strings.CutPrefix(cmp.Or(link.ImportPath, w.pkg.ImportPath), module)
	if !ours {
		return "https://pkg.go.dev/" + link.ImportPath + id
	}
	return pageOf(cmp.Or(strings.TrimPrefix(name, "/"), ".")) + id
}

func (w *writer) examples(examples []*doc.Example) {
	for _, e := range examples {
		fmt.Fprintf(w, "**Example**%s\n\n", strings.TrimRight(": "+e.Suffix, ": "))
		if e.Play != nil {
			w.block(e.Play)
		} else {
			w.block(e.Code)
		}
		if e.Output != "" {
			fmt.Fprintf(w, "It prints:\n\n```text\n%s```\n\n", e.Output)
		}
	}
}
