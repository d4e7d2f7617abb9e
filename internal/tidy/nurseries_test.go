package tidy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/snippets"
)

// TestNurseriesDeferNothingThatTheirTasksUse: the function of a nursery returns before its tasks have
// ended, so what it closes in a deferred call is closed under the tasks that use it. Users copy from
// our programs and pages, so none of them does that.
func TestNurseriesDeferNothingThatTheirTasksUse(t *testing.T) {
	atRoot(t)
	found := 0
	check := func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			fn, nursery := nurseryFunction(n)
			if fn == nil {
				return true
			}
			found++
			for _, name := range closedTooEarly(fn, nursery) {
				t.Errorf("%s: %s is closed by a deferred call in the function of a nursery, and a task of it uses %s", path, name, name)
			}
			return true
		})
	}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), s.path, s.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		check(s.path, file)
	}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, b := range snippets.Blocks(t, path, string(text)) {
			if !strings.HasPrefix(b.Kind, "go") {
				continue
			}
			for _, code := range []string{b.Text, "package p\n" + b.Text, "package p\nfunc f() error {\n" + b.Text + "\n}"} {
				if file, err := parser.ParseFile(token.NewFileSet(), path, code, 0); err == nil {
					check(path, file)
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Errorf("found only %d nurseries", found)
	}
}

// nurseryFunction returns the function literal that a call of WithNursery has, and the name of the nursery in it.
func nurseryFunction(n ast.Node) (fn *ast.FuncLit, nursery string) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 || !strings.HasSuffix(nameOf(call.Fun), "WithNursery") {
		return nil, ""
	}
	fn, ok = call.Args[len(call.Args)-1].(*ast.FuncLit)
	if !ok {
		return nil, ""
	}
	for _, p := range fn.Type.Params.List {
		for _, name := range p.Names {
			nursery = name.Name // the last parameter
		}
	}
	return fn, nursery
}

// nameOf returns the last name of a function that is called.
func nameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// closedTooEarly returns the variables that deferred calls of fn close, and functions of its tasks use.
func closedTooEarly(fn *ast.FuncLit, nursery string) (names []string) {
	closed, used := map[string]bool{}, map[string]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // its deferred calls are its own
		case *ast.DeferStmt:
			if method, ok := n.Call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Close", "Shutdown", "Stop", "Release"}, method.Sel.Name) {
				if of, ok := method.X.(*ast.Ident); ok {
					closed[of.Name] = true
				}
			}
			return false
		case *ast.CallExpr:
			if !startsTask(n, nursery) {
				return true
			}
			for _, arg := range n.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						used[id.Name] = true
					}
					return true
				})
			}
		}
		return true
	})
	for name := range closed {
		if used[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// startsTask reports whether a call starts a task in the nursery: a method of it, or a function that takes it.
func startsTask(call *ast.CallExpr, nursery string) bool {
	if method, ok := call.Fun.(*ast.SelectorExpr); ok {
		if of, ok := method.X.(*ast.Ident); ok && of.Name == nursery {
			return true
		}
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		id, ok := arg.(*ast.Ident)
		return ok && id.Name == nursery
	})
}

// TestAnEarlyCloseIsFound: the rule finds the mistake that it is for, and not its remedy.
func TestAnEarlyCloseIsFound(t *testing.T) {
	for body, want := range map[string]int{
		"defer bus.Close(); n.Go(func() { serve(bus) })":           1,
		"defer bus.Close(); spindle.Spawn(n, serve(bus))":          1,
		"defer caller.Close(); n.Go(func() { serve(bus) })":        0,
		"n.Go(func() { defer bus.Close(); serve(bus) })":           0,
		"defer n.Scope().Cancel(nil); n.Go(func() { serve(bus) })": 0,
	} {
		x, err := parser.ParseExpr("spindle.WithNursery(ctx, func(ctx C, n *N) error {" + body + "; return nil })")
		if err != nil {
			t.Fatal(err)
		}
		fn, nursery := nurseryFunction(x)
		if got := closedTooEarly(fn, nursery); len(got) != want {
			t.Errorf("%s: found %v", body, got)
		}
	}
}
