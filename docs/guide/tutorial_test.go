package guide_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/snippets"
)

// TestTheTutorial follows the page: it writes the files in their order, runs the echo server, and
// runs the tests. They fail where the page says so, and pass after the fix.
func TestTheTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: compiles programs and tests")
	}
	text, err := os.ReadFile("tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("module hello\n\ngo 1.26\n\nrequire github.com/spindleloop/spindle v0.0.0\n\nreplace github.com/spindleloop/spindle => %q\n", root))
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "go.sum"), string(sums))
	failed := false
	for _, b := range snippets.Blocks(t, "tutorial.md", string(text)) {
		name, isFile := strings.CutPrefix(b.Kind, "go ")
		switch {
		case isFile:
			writeFile(t, filepath.Join(dir, name), b.Text)
		case b.Kind == "failure":
			failed = true
			out, err := goCommand(t, dir, "test", "./counter").CombinedOutput()
			for want := range strings.Lines(b.Text) {
				if err == nil || !strings.Contains(string(out), strings.TrimSpace(want)) {
					t.Fatalf("%v; the tests say\n%swant them to fail with %s", err, out, want)
				}
			}
			repeats(t, dir, string(out))
		}
	}
	if !failed {
		t.Fatal("the page has no block of kind failure")
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}, {"build", "-o", "server", "./echo"}} {
		if out, err := goCommand(t, dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	echoes(t, filepath.Join(dir, "server"))
}

// repeats runs the command that a failed simulation has printed, where the user has run the test. It
// must fail in the same way.
func repeats(t *testing.T, dir, report string) {
	_, command, _ := strings.Cut(report, "again: ")
	command, _, _ = strings.Cut(command, "\n")
	again := goCommand(t, dir)
	again.Path, again.Args = "/bin/sh", []string{"sh", "-c", command}
	_, failure, _ := strings.Cut(report, "sim: seed ")
	failure, _, _ = strings.Cut(failure, "\n")
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "sim: seed "+failure) {
		t.Errorf("%s: %v\n%swant seed %s", command, err, out, failure)
	}
}

// echoes starts an echo server, sends it a line, and interrupts it.
func echoes(t *testing.T, program string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, program)
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill() })
	addr := strings.TrimPrefix(line(t, bufio.NewReader(stdout)), "listening on ")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, "hello")
	if got := line(t, bufio.NewReader(c)); got != "hello" {
		t.Errorf("it echoes %q", got)
	}
	server.Process.Signal(os.Interrupt)
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

// goCommand returns a go command that completes go.mod from the cache of modules, as "go get" would
// from the network; it has the sums of the checkout.
func goCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	return command
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o777)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
