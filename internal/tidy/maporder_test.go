package tidy_test

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRangesOverMapsHaveNoOrder: the order of a map differs in each run, so in packages that
// run in a simulated world it must not matter. A range over a map must have a body that
// provably has the same effect in any order, or a comment "any order: " with the reason
// in its line. What package maps yields must be sorted.
func TestRangesOverMapsHaveNoOrder(t *testing.T) {
	atRoot(t)
	var dirs []string
	for _, dir := range slices.Sorted(maps.Keys(mayImport)) {
		if !within(dir+"/", outside) {
			dirs = append(dirs, dir)
		}
	}
	set, found := token.NewFileSet(), 0
	compiled := importer.ForCompiler(set, "gc", exportData(t, dirs))
	for _, dir := range dirs {
		files := buildFiles(t, set, dir)
		if len(files) == 0 {
			continue
		}
		info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
		config := types.Config{Importer: compiled, FakeImportC: true}
		if _, err := config.Check(dir, set, files, info); err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for _, file := range files {
			m := mapOrder{info: info, set: set, reasons: reasonsOf(set, file)}
			ast.Inspect(file, m.visit)
			found += m.found
			for _, fault := range m.faults {
				t.Errorf("%s; sort first, or give the reason in a comment \"any order: \"", fault)
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d uses of maps: the test does not see them", found)
	}
}

// exportData returns a function that opens the export data of a package that those in dirs
// import, as the compiler has written it.
func exportData(t *testing.T, dirs []string) func(path string) (io.ReadCloser, error) {
	t.Helper()
	args := []string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	var failure bytes.Buffer
	list.Stderr = &failure
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, failure.Bytes())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[name] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// buildFiles parses the files of a package that this system builds.
func buildFiles(t *testing.T, set *token.FileSet, dir string) (files []*ast.File) {
	t.Helper()
	pkg, err := build.ImportDir(dir, 0)
	if _, none := err.(*build.NoGoError); none {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// reasonsOf returns the lines of a file with a comment that gives the reason.
func reasonsOf(set *token.FileSet, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.Contains(c.Text, "any order: ") {
				lines[set.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

// mapOrder looks for code that depends on the order of a map.
type mapOrder struct {
	info    *types.Info
	set     *token.FileSet
	reasons map[int]bool
	sorted  []ast.Node // calls of package maps that are sorted
	found   int
	faults  []string
}

// sorters are the functions of package slices that sort a sequence.
var sorters = []string{"Sorted", "SortedFunc", "SortedStableFunc"}

func (m *mapOrder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.RangeStmt:
		if _, ok := m.typeOf(n.X).(*types.Map); ok {
			m.found++
			if body := (orderFree{m.info, m.objectOf(n.Key)}); !body.block(n.Body) {
				m.fault(n, "ranges over a map")
			}
		}
	case *ast.CallExpr:
		switch pkg, name := callee(m.info, n); {
		case pkg == "slices" && slices.Contains(sorters, name):
			m.sorted = append(m.sorted, n.Args[0])
		case pkg == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, name):
			if m.found++; !slices.Contains(m.sorted, ast.Node(n)) {
				m.fault(n, "uses maps."+name)
			}
		}
	}
	return true
}

func (m *mapOrder) fault(n ast.Node, what string) {
	if at := m.set.Position(n.Pos()); !m.reasons[at.Line] {
		m.faults = append(m.faults, at.String()+" "+what+" in an order that matters")
	}
}

func (m *mapOrder) typeOf(x ast.Expr) types.Type {
	if typ := m.info.Types[x].Type; typ != nil {
		return typ.Underlying()
	}
	return nil
}

func (m *mapOrder) objectOf(x ast.Expr) types.Object {
	if id, ok := x.(*ast.Ident); ok {
		return cmpOr(m.info.Defs[id], m.info.Uses[id])
	}
	return nil
}

// cmpOr returns a unless it is nil.
func cmpOr(a, b types.Object) types.Object {
	if a != nil {
		return a
	}
	return b
}

// callee returns the package and the name of a function of another package.
func callee(info *types.Info, call *ast.CallExpr) (pkg, name string) {
	fn := call.Fun
	if index, ok := fn.(*ast.IndexExpr); ok {
		fn = index.X
	}
	if sel, ok := fn.(*ast.SelectorExpr); ok {
		if f, ok := info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil {
			return f.Pkg().Path(), f.Name()
		}
	}
	return "", ""
}

// ofStrings reports whether a function is one of package strings, which have no effects.
func ofStrings(pkg, _ string) bool { return pkg == "strings" }

// orderFree recognizes bodies of ranges that have the same effect in any order: they delete
// from maps, set the element of another map that has the same key, count and sum up, or return
// constants.
type orderFree struct {
	info *types.Info
	key  types.Object
}

func (o orderFree) block(b *ast.BlockStmt) bool { return all(b.List, o.statement) }

func all[T any](list []T, ok func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !ok(v) })
}

func (o orderFree) statement(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && o.builtin(call, "delete") && all(call.Args, o.pure)
	case *ast.IncDecStmt:
		return o.integer(s.X)
	case *ast.AssignStmt:
		return all(s.Rhs, o.pure) && o.assigns(s)
	case *ast.IfStmt:
		return (s.Init == nil || o.statement(s.Init)) && o.pure(s.Cond) && o.block(s.Body) && (s.Else == nil || o.statement(s.Else))
	case *ast.BlockStmt:
		return o.block(s)
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE && s.Label == nil
	case *ast.ReturnStmt:
		return all(s.Results, o.constant)
	}
	return false
}

// assigns reports whether an assignment has the same effect in any order.
func (o orderFree) assigns(s *ast.AssignStmt) bool {
	switch s.Tok {
	case token.DEFINE:
		return true // a variable of this pass
	case token.ADD_ASSIGN, token.SUB_ASSIGN, token.OR_ASSIGN, token.AND_ASSIGN, token.XOR_ASSIGN:
		return o.integer(s.Lhs[0])
	case token.ASSIGN:
		return all(s.Lhs, func(x ast.Expr) bool {
			index, ok := x.(*ast.IndexExpr)
			if !ok {
				return false
			}
			id, ok := index.Index.(*ast.Ident)
			return ok && o.key != nil && o.info.Uses[id] == o.key
		})
	}
	return false
}

func (o orderFree) integer(x ast.Expr) bool {
	basic, ok := o.info.Types[x].Type.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsInteger != 0
}

func (o orderFree) constant(x ast.Expr) bool {
	at := o.info.Types[x]
	return at.Value != nil || at.IsNil()
}

func (o orderFree) builtin(call *ast.CallExpr, names ...string) bool {
	id, ok := call.Fun.(*ast.Ident)
	return ok && slices.Contains(names, id.Name) && o.info.Types[call.Fun].IsBuiltin()
}

// pure reports whether an expression calls nothing with an effect.
func (o orderFree) pure(x ast.Expr) bool {
	pure := true
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			pure = pure && (o.builtin(n, "len", "cap", "min", "max") || o.info.Types[n.Fun].IsType() || ofStrings(callee(o.info, n)))
		case *ast.FuncLit:
			pure = false
		case *ast.UnaryExpr:
			pure = pure && n.Op != token.ARROW
		}
		return pure
	})
	return pure
}
