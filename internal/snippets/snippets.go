// Package snippets compiles the code that pages in Markdown show. It is for tests.
package snippets

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Block is a fenced block of a page.
type Block struct {
	Page string
	Line int    // of its first line, from 1
	Kind string // what follows the fence
	Text string
}

// Blocks returns the fenced blocks of a page.
func Blocks(t testing.TB, page, text string) (all []Block) {
	t.Helper()
	var open *Block
	for i, line := range strings.SplitAfter(text, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &Block{Page: page, Line: i + 2, Kind: fence}
		case isFence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.Text += line
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block does not end", page, open.Line)
	}
	return all
}

// Located returns the block's code. Errors of the compiler name the page and the line.
func (b *Block) Located() string { return fmt.Sprintf("//line %s:%d\n%s", b.Page, b.Line, b.Text) }

// Program is one file to build.
type Program struct{ Name, Text string }

// Build compiles programs in the test's directory, and returns the directory of the executables.
// A file that is not of package main is only compiled. The files exist only for the go command,
// through its -overlay, inside the module, so that they import the packages as any user does.
func Build(t testing.TB, all []Program) (bin string) {
	t.Helper()
	tmp := t.TempDir()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	bin = filepath.Join(tmp, "bin") + string(filepath.Separator)
	file := filepath.Join(tmp, "overlay.json")
	// With -o the go command ignores packages other than main, so they are another command's.
	compile := []string{"build", "-overlay", file}
	link := []string{"build", "-overlay", file, "-ldflags=-w", "-o", bin}
	for _, p := range all {
		code := filepath.Join(tmp, p.Name+".go")
		if err := os.WriteFile(code, []byte(p.Text), 0o666); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, p.Name, "main.go")] = code
		if strings.Contains("\n"+p.Text, "\npackage main\n") {
			link = append(link, "./"+p.Name)
		} else {
			compile = append(compile, "./"+p.Name)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(file, overlay, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{compile, link} {
		if last := args[len(args)-1]; last == file || last == bin {
			continue // there are none of this kind
		}
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return bin
}

// CompileKind compiles the blocks of one kind, such as "go nats", of the pages that match a
// pattern of filepath.Glob. Each is the body of a function behind head, which is the file up to
// that function's opening brace. It returns how many there are.
func CompileKind(t testing.TB, pages, kind, head string) int {
	t.Helper()
	files, err := filepath.Glob(pages)
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages %s: %v", pages, err)
	}
	var all []Program
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range Blocks(t, file, string(text)) {
			if b.Kind == kind {
				all = append(all, Program{fmt.Sprintf("block%d", len(all)), head + "\n\t{\n" + b.Located() + "\n\t}\n\treturn\n}\n"})
			}
		}
	}
	if len(all) > 0 {
		Build(t, all)
	}
	return len(all)
}
