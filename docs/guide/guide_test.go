// Package guide_test checks the guide and the README against the code: the code they show
// compiles, programs print what the pages say, and the names and links exist.
package guide_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/snippets"

	// The pages use these too. The go command must know it, or it returns a cached result
	// when one of them has changed.
	_ "github.com/spindleloop/spindle/proc"
	_ "github.com/spindleloop/spindle/pyapp"
	_ "github.com/spindleloop/spindle/relay"
	_ "github.com/spindleloop/spindle/relay/gateway"
	_ "github.com/spindleloop/spindle/relay/process"
	_ "github.com/spindleloop/spindle/supervise"
	_ "github.com/spindleloop/spindle/transport"
	_ "github.com/spindleloop/spindle/ws"
)

// pages are the pages of the guide, and others for users, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages found", err)
	}
	for _, other := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md", "python/README.md", "docs/figures.md"} {
		files = append(files, filepath.Join("../..", other))
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

func blocks(t *testing.T) (all []snippets.Block) {
	t.Helper()
	for page, text := range pages(t) {
		all = append(all, snippets.Blocks(t, page, text)...)
	}
	return all
}

// snippet surrounds a block that is not a program: the block's statements are the body of
// a function with these names. The package is not main, so that it is compiled and not
// linked.
const snippet = `package snippet

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"iter"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/relay/process"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/supervise"
	"github.com/spindleloop/spindle/web"
)

var (
	_, _, _, _, _ = errors.New, fmt.Sprint, log.Fatal, os.Open, time.Now
	_, _, _, _, _ = spindle.Run, cosync.Select, loop.New, sim.Run, web.Inline
	_, _, _, _, _ = expvar.Publish, inspect.Dump, pyapp.ErrStart, process.Serve, gateway.Ready
	_, _          = supervise.Run, net.Dial

	_ iter.Seq2[int, error]

	fetch, work func(context.Context) error
	delay       http.HandlerFunc
	mux         http.Handler
	bus         relay.Bus
	caller      *relay.Caller
	upper       relay.Handler
	w           *sim.World
	seed        uint64
	setup       func(*sim.World)
	ask         func(context.Context) error
)

func _(ctx context.Context, n *spindle.Nursery, l *loop.Loop) (err error) {
	{
%s
	}
	return
}
`

// program is one file to build, and the output that it must print.
type program struct {
	snippets.Program
	output *snippets.Block // nil if the page does not show any
}

// programs are the go blocks of all pages. A block is a program, a snippet, or, as
// "go part", a part of the one program that all parts of the page form together. Blocks of
// other kinds, such as "go nats", are compiled by tests of their modules.
func programs(t *testing.T) (all []program) {
	t.Helper()
	bs := blocks(t)
	parts := map[string]int{} // index in all, by page
	for i, b := range bs {
		text := b.Located()
		switch at, begun := parts[b.Page]; {
		case b.Kind == "go part" && begun:
			all[at].Text += text
			continue
		case b.Kind == "go part":
			parts[b.Page] = len(all)
			all = append(all, program{Program: snippets.Program{Name: strings.TrimSuffix(filepath.Base(b.Page), ".md"), Text: text}})
			continue
		case b.Kind != "go":
			continue
		case !strings.HasPrefix(b.Text, "package main\n"):
			text = fmt.Sprintf(snippet, text)
		}
		p := program{Program: snippets.Program{Name: fmt.Sprintf("block%d", i), Text: text}}
		if i+1 < len(bs) && bs[i+1].Kind == "output" && bs[i+1].Page == b.Page {
			p.output = &bs[i+1]
		}
		all = append(all, p)
	}
	return all
}

// build compiles the programs and returns the directory of the executables.
func build(t *testing.T, all []program) (bin string) {
	t.Helper()
	var files []snippets.Program
	for _, p := range all {
		files = append(files, p.Program)
	}
	return snippets.Build(t, files)
}

// TestCodeCompiles builds every go block, and runs the programs that an output block
// follows.
func TestCodeCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: linking forty programs takes seconds")
	}
	all := programs(t)
	bin := build(t, all)
	for _, p := range all {
		if p.output == nil {
			continue
		}
		want := *p.output
		t.Run(fmt.Sprintf("%s:%d", want.Page, want.Line), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			run := exec.CommandContext(ctx, filepath.Join(bin, p.Name))
			var errs bytes.Buffer
			run.Stderr = &errs
			got, err := run.Output()
			if err != nil || string(got) != want.Text {
				t.Errorf("%v; it prints\n%swant\n%s%s", err, got, want.Text, errs.Bytes())
			}
		})
	}
}

// TestFilesAreShownAsTheyAre compares blocks such as "go examples/taskloop/main.go" with the files, from
// the package clause on.
func TestFilesAreShownAsTheyAre(t *testing.T) {
	found := 0
	for _, b := range blocks(t) {
		name, ok := strings.CutPrefix(b.Kind, "go examples/")
		if !ok {
			continue
		}
		found++
		text, err := os.ReadFile(filepath.Join("../../examples", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, code, _ := strings.Cut(string(text), "package main\n"); "package main\n"+code != b.Text {
			t.Errorf("%s:%d: the block is not the file %s", b.Page, b.Line, name)
		}
	}
	if found == 0 {
		t.Error("no block was found")
	}
}

// TestPythonCompiles compiles every Python block.
func TestPythonCompiles(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	found := 0
	for _, b := range blocks(t) {
		if b.Kind != "python" {
			continue
		}
		found++
		compiler := exec.CommandContext(t.Context(), python, "-c", "import ast, sys; compile(sys.stdin.read(), sys.argv[1], 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)", b.Page)
		compiler.Stdin = strings.NewReader(b.Text)
		if out, err := compiler.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", b.Page, b.Line, err, out)
		}
	}
	if found < 5 {
		t.Errorf("only %d blocks were found", found)
	}
}
