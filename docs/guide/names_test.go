package guide_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shorthand maps the short names that the pages use to types.
var shorthand = map[string]string{"n": "spindle.Nursery", "s": "spindle.Scope", "f": "spindle.Future", "l": "loop.Loop"}

var (
	fenced = regexp.MustCompile("(?ms)^```.*?^```")
	inline = regexp.MustCompile("`[^`\n]+`")
	named  = regexp.MustCompile(`(^|[^\w.])([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	link   = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

func TestNamesExist(t *testing.T) {
	exist := exported(t)
	found := 0
	for page, text := range pages(t) {
		inPython := ""
		if page == "anyio.md" || page == "uvloop.md" || strings.Contains(page, "python") {
			inPython = exportedByPython(t)
		}
		for _, code := range inline.FindAllString(text, -1) {
			for _, m := range named.FindAllStringSubmatch(strings.Trim(code, "`"), -1) {
				name := m[2] + "." + m[3]
				switch of, short := shorthand[m[2]]; {
				case short:
					name = of + "." + m[3]
				case !exist[m[2]]:
					continue // of another package, or another language
				case m[2] == "spindle" && strings.Contains(inPython, " "+m[3]+","):
					continue // of the package for Python
				case m[4] != "":
					name += "." + m[4]
				}
				found++
				if !exist[name] {
					t.Errorf("%s: %s: there is no %s", page, code, name)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d names found: does the test see them?", found)
	}
}

// exportedByPython returns the names of the package for Python, each after a space and before a comma.
func exportedByPython(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../python/spindle/__init__.py")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(text), "__all__ = [")
	if !ok {
		t.Fatal("the package for Python has no list of its names")
	}
	list, _, _ = strings.Cut(list, "]")
	return " " + strings.Join(strings.Fields(strings.ReplaceAll(list, `"`, "")), " ") + ","
}

// TestMembersExist checks names without their package, such as ServeOptions.Drain. Types with the same
// name in several packages have the members of all of them.
func TestMembersExist(t *testing.T) {
	types, members := map[string]bool{}, map[string]bool{}
	for name := range exported(t) {
		parts := strings.Split(name, ".")
		if len(parts) > 1 {
			types[parts[1]] = true
		}
		if len(parts) > 2 {
			members[parts[1]+"."+parts[2]] = true
		}
	}
	member := regexp.MustCompile("^`([A-Z]\\w*)\\.([A-Z][a-z]\\w*)")
	found := 0
	for page, text := range pages(t) {
		if strings.HasSuffix(page, "ARCHITECTURE.md") || page == "loop.md" {
			continue // they are about internal types
		}
		for _, code := range inline.FindAllString(text, -1) {
			m := member.FindStringSubmatch(code)
			if m == nil || !types[m[1]] {
				continue
			}
			found++
			if !members[m[1]+"."+m[2]] {
				t.Errorf("%s: %s: there is no %s.%s", page, code, m[1], m[2])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d members were found", found)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	for page, text := range pages(t) {
		prose := inline.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// exported returns the packages and the names that they export: spindle, spindle.Scope,
// spindle.Scope.Cancel.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{"spindle.Worker": true} // of the Python package, for gunicorn
	for _, dir := range []string{".", "loop", "cosync", "sim", "stream", "transport", "web", "ws", "proc", "files", "pyapp", "inspect", "supervise", "either", "relay", "relay/gateway", "tracing", "relay/process", "relay/nats", "inspect/otel"} {
		name := filepath.Base(dir)
		if dir == "." {
			name = "spindle"
		}
		dir = filepath.Join("../..", dir)
		all[name] = true
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of package %s: %v", name, err)
		}
		for _, file := range files {
			syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			if syntax.Name.Name != name {
				continue // a test
			}
			for _, d := range syntax.Decls {
				declare(all, name+".", d)
			}
		}
	}
	return all
}

func declare(all map[string]bool, prefix string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			prefix += typeName(d.Recv.List[0].Type) + "."
		}
		all[prefix+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					all[prefix+name.Name] = true
				}
			case *ast.TypeSpec:
				all[prefix+spec.Name.Name] = true
				if fields, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range fields.Fields.List {
						for _, name := range field.Names {
							all[prefix+spec.Name.Name+"."+name.Name] = true
						}
					}
				}
			}
		}
	}
}

// typeName returns the name of a receiver's type: T for *T and T[P].
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
