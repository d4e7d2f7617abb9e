package inspect_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
)

func TestDumpShowsTheTreeOfEveryLoop(t *testing.T) {
	run(t, "dumped", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "sleeper"}, func(ctx context.Context) error {
				return spindle.Sleep(ctx, time.Hour)
			})
			outside(func() {
				var b bytes.Buffer
				until.Tried(func() bool {
					b.Reset()
					if err := inspect.Dump(&b); err != nil {
						t.Error(err)
					}
					return strings.Contains(b.String(), "waiting for Sleep (")
				})
				for _, want := range []string{"(dumped): ", " main (", "sleeper (dump_test.go:", "waiting for Sleep ("} {
					if !strings.Contains(b.String(), want) {
						t.Errorf("the dump has no %q:\n%s", want, &b)
					}
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// TestDumpEscapesNames: the names of loops and tasks may come from the input of the program.
// They can neither forge a line nor control the terminal.
func TestDumpEscapesNames(t *testing.T) {
	const hostile = "GET /\nloop 99 (forged): \x1b[2J\u202e"
	run(t, "dumped "+hostile, func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: hostile}, func(ctx context.Context) error {
				return spindle.Sleep(ctx, time.Hour)
			})
			outside(func() {
				var b bytes.Buffer
				until.Tried(func() bool {
					b.Reset()
					if err := inspect.Dump(&b); err != nil {
						t.Error(err)
					}
					return strings.Count(b.String(), "forged") == 2
				})
				if n := strings.Count(b.String(), `GET /\nloop 99 (forged): \x1b[2J\u202e`); n != 2 ||
					strings.Contains(b.String(), "\nloop 99") || strings.ContainsAny(b.String(), "\x1b\u202e") {
					t.Errorf("the dump is %q", &b)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// TestQuitPrintsTheTree runs itself as another process, which gets SIGQUIT.
func TestQuitPrintsTheTree(t *testing.T) {
	const variable = "SPINDLE_TEST_QUIT"
	if os.Getenv(variable) != "" {
		defer inspect.DumpOnQuit()()
		o := spindle.Options{Loop: loop.Options{Name: "quitting"}}
		_ = o.Run(t.Context(), func(ctx context.Context) error {
			_, err := os.Stdout.WriteString("ready\n")
			if err != nil {
				return err
			}
			return spindle.Sleep(ctx, time.Hour)
		})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestQuitPrintsTheTree$")
	cmd.Env = append(os.Environ(), variable+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 6)); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Error(err)
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("the process ended with %v", err)
	}
	goroutines := strings.Index(stderr.String(), "goroutine 1 [")
	tree := strings.Index(stderr.String(), "(quitting): ")
	if goroutines < 0 || tree < goroutines || !strings.Contains(stderr.String(), "main (dump_test.go:") {
		t.Errorf("the process printed:\n%s", &stderr)
	}
}
