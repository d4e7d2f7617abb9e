// Package guide_test holds the guide to the code: what it shows compiles, what it
// says a program prints is what it prints, and what it names exists.
package guide_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// block is a fenced block of a page.
type block struct {
	page string
	line int // of its first line, from 1
	kind string
	text string
}

func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages found", err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	}
	return all
}

func blocks(t *testing.T) (all []block) {
	t.Helper()
	for page, text := range pages(t) {
		var open *block
		for i, line := range strings.SplitAfter(text, "\n") {
			fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case isFence && open == nil:
				open = &block{page: page, line: i + 2, kind: fence}
			case isFence:
				all = append(all, *open)
				open = nil
			case open != nil:
				open.text += line
			}
		}
		if open != nil {
			t.Fatalf("%s:%d: the block does not end", page, open.line)
		}
	}
	return all
}

func (b block) isProgram() bool { return strings.HasPrefix(b.text, "package main\n") }

// snippet is what a block that is no program is part of: statements of a function
// with these names.
const snippet = `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

var _, _, _, _, _, _, _, _ = errors.New, fmt.Sprint, os.Open, time.Now, spindle.Run, cosync.Select, loop.New, sim.Run

func main() {}

func _(ctx context.Context, n *spindle.Nursery, l *loop.Loop, work func(context.Context) error) (err error) {
//line %s:%d
%s
return
}
`

// TestCodeCompiles builds every go block, and runs the programs that an output
// block follows. The files exist only for the go command, by its -overlay, inside
// the module, so that they import it like any user.
func TestCodeCompiles(t *testing.T) {
	tmp := t.TempDir()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	var packages []string
	all := blocks(t)
	outputs := map[string]block{} // by package
	for i, b := range all {
		if b.kind != "go" {
			continue
		}
		name := fmt.Sprintf("block%d", i)
		text := fmt.Sprintf("//line %s:%d\n%s", b.page, b.line, b.text)
		if !b.isProgram() {
			text = fmt.Sprintf(snippet, b.page, b.line, b.text)
		}
		file := filepath.Join(tmp, name+".go")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name, "main.go")] = file
		packages = append(packages, "./"+name)
		if i+1 < len(all) && all[i+1].kind == "output" && all[i+1].page == b.page {
			outputs[name] = all[i+1]
		}
	}
	overlay := filepath.Join(tmp, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(tmp, "bin") + string(filepath.Separator)
	args := append([]string{"build", "-overlay", overlay, "-o", bin}, packages...)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range outputs {
		t.Run(fmt.Sprintf("%s:%d", want.page, want.line), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			program := exec.CommandContext(ctx, filepath.Join(bin, name))
			var errs bytes.Buffer
			program.Stderr = &errs
			got, err := program.Output()
			if err != nil || string(got) != want.text {
				t.Errorf("%v; it prints\n%swant\n%s%s", err, got, want.text, errs.Bytes())
			}
		})
	}
}

// shorthand is what the pages call things, beside the packages' own names.
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
		for _, code := range inline.FindAllString(text, -1) {
			for _, m := range named.FindAllStringSubmatch(strings.Trim(code, "`"), -1) {
				name := m[2] + "." + m[3]
				switch of, short := shorthand[m[2]]; {
				case short:
					name = of + "." + m[3]
				case !exist[m[2]]:
					continue // of another package, or another language
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

func TestLinksLeadSomewhere(t *testing.T) {
	for page, text := range pages(t) {
		prose := inline.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// exported are the packages and all that they export: spindle, spindle.Scope,
// spindle.Scope.Cancel.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, name := range []string{"spindle", "loop", "cosync", "sim", "stream", "transport", "web", "ws", "proc", "files"} {
		dir := filepath.Join("../..", name)
		if name == "spindle" {
			dir = "../.."
		}
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

// typeName is the name of a receiver's type: T of *T and of T[P].
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
