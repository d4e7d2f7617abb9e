package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/stream"
)

const tenMB = 10 << 20

var tenMegabytes = pattern(tenMB)

func TestExitStatus(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		if err := w.role("exit", "0").Run(ctx); err != nil {
			t.Errorf("success: %v", err)
		}
		var exit *exec.ExitError
		if err := w.role("exit", "3").Run(ctx); !errors.As(err, &exit) || exit.ExitCode() != 3 || exit.Error() != "exit status 3" {
			t.Errorf("failure: %v", err)
		}
		return nil
	})
}

func TestMuchOutputOnBothPipesAtOnce(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		var errs bytes.Buffer
		flood := fmt.Sprintf("head -c %d /dev/zero", tenMB)
		cmd := w.cmd(proc.Command("sh", "-c", flood+" & "+flood+" >&2; wait"))
		cmd.Stderr = &errs
		out, err := cmd.Output(ctx)
		if len(out) != tenMB || errs.Len() != tenMB {
			t.Errorf("%d and %d bytes came", len(out), errs.Len())
		}
		return err
	})
}

func TestCombinedOutputHasBothInOrder(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.cmd(proc.Command("sh", "-c", "for i in 1 2 3 4 5; do echo $i; echo $i >&2; done"))
		if out, err := cmd.CombinedOutput(ctx); strings.ReplaceAll(string(out), "\n", "") != "1122334455" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		out, err := w.role("flood", "1048576").CombinedOutput(ctx)
		if len(out) != 2<<20 {
			t.Errorf("%d bytes", len(out))
		}
		return err
	})
}

func TestInputIsEchoed(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.cmd(proc.Command("cat"))
		want := tenMegabytes
		cmd.Stdin = bytes.NewReader(want)
		out, err := cmd.Output(ctx)
		if !bytes.Equal(out, want) {
			t.Errorf("%d bytes came back", len(out))
		}
		return err
	})
}

// TestPipesAreConns uses pipes directly, with a task for each direction.
func TestPipesAreConns(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.cmd(proc.Command("cat"))
		cmd.Stdin, cmd.Stdout = proc.Pipe, proc.Pipe
		p, err := cmd.Start(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		if p.Stderr != nil {
			t.Error("there is a pipe that was not requested")
		}
		want := tenMegabytes
		n.Go(func(context.Context) error {
			_, err := p.Stdin.Write(want)
			return errors.Join(err, p.Stdin.CloseWrite())
		})
		out, err := io.ReadAll(p.Stdout)
		if !bytes.Equal(out, want) {
			t.Errorf("%d bytes came back", len(out))
		}
		return errors.Join(err, p.Wait(ctx))
	})
}

// TestOneProcessFeedsAnother uses the output of one process as the input of another.
func TestOneProcessFeedsAnother(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		first := w.role("flood", "1048576")
		first.Stdout = proc.Pipe
		p, err := first.Start(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		second := w.cmd(proc.Command("cat"))
		second.Stdin = p.Stdout
		out, err := second.Output(ctx)
		if len(out) != 1<<20 {
			t.Errorf("%d bytes", len(out))
		}
		return errors.Join(err, p.Wait(ctx))
	})
}

// TestManyAtOnce runs many processes twice, to check that each slot in the queue is
// released.
func TestManyAtOnce(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		for _, count := range []int{short.Of(200), 3} {
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for i := range count {
					n.Go(func(ctx context.Context) error {
						cmd := w.cmd(proc.Command("cat"))
						want := strings.Repeat(fmt.Sprint(i), 1000)
						cmd.Stdin = strings.NewReader(want)
						out, err := cmd.Output(ctx)
						if string(out) != want {
							t.Errorf("process %d: %d bytes", i, len(out))
						}
						return err
					})
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TestLoopRunsMeanwhile: the child exits only after other tasks have had many turns.
func TestLoopRunsMeanwhile(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		r, wr, err := stream.Pipe(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		n.Go(func(ctx context.Context) error {
			for range 100 {
				if err := spindle.Sleep(ctx, 1000); err != nil {
					return err
				}
			}
			return wr.Close()
		})
		cmd := w.cmd(proc.Command("cat"))
		cmd.Stdin = r
		return cmd.Run(ctx)
	})
}

func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		nowhere := w.role("exit", "0")
		nowhere.Dir = filepath.Join(dir, "nowhere")
		for _, c := range []struct {
			name string
			cmd  *proc.Cmd
			want error
		}{
			{"unknown name", w.cmd(proc.Command("no-such-program-anywhere")), exec.ErrNotFound},
			{"a name with a NUL", w.cmd(proc.Command("a\x00b")), exec.ErrNotFound},
			{"unknown path", w.cmd(proc.Command(filepath.Join(dir, "none"))), fs.ErrNotExist},
			{"no program", w.cmd(proc.Command(plain)), fs.ErrPermission},
			{"unknown directory", nowhere, fs.ErrNotExist},
		} {
			c.cmd.Stdin, c.cmd.Stdout = proc.Pipe, proc.Pipe // must not stay open
			if p, err := c.cmd.Start(ctx); p != nil || !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		return nil
	})
}

func TestEnvironmentAndFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.role("env", "COLOUR")
		cmd.Env = append(cmd.Env, "COLOUR=red", "COLOUR=blue")
		cmd.Dir = dir
		out, err := cmd.Output(ctx)
		if string(out) != "blue "+dir {
			t.Errorf("the child printed %q", out)
		}
		if err != nil {
			return err
		}
		r, f, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		cmd = w.role("inherit")
		cmd.ExtraFiles = []*os.File{f}
		if err := cmd.Run(ctx); err != nil {
			t.Error(err)
		}
		f.Close()
		extra, err := io.ReadAll(r)
		if string(extra) != "to descriptor 3" {
			t.Errorf("read %q from descriptor 3", extra)
		}
		return err
	})
}

// TestFilesArePassedOn checks that no task copies between a file and the child.
func TestFilesArePassedOn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd := w.role("fail")
		cmd.Stdout, cmd.Stderr = f, f
		cmd.Stdin = (*os.File)(nil) // the same as nil
		var exit *exec.ExitError
		if err := cmd.Run(ctx); !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Error(err)
		}
		text, err := os.ReadFile(name)
		if string(text) != "some output\nwhat went wrong\n" {
			t.Errorf("the file contains %q", text)
		}
		return err
	})
}

func TestOutputIncludesStderr(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.role("fail")
		for range 2 { // a Cmd can be used again
			out, err := cmd.Output(ctx)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || string(exit.Stderr) != "what went wrong\n" || string(out) != "some output\n" {
				t.Errorf("%q, %v", out, err)
			}
		}
		return nil
	})
}

// TestOutputHasALimit checks that a child with endless output is killed.
func TestOutputHasALimit(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.cmd(proc.Command("sh", "-c", "trap '' PIPE; while :; do echo much too much; done"))
		cmd.MaxOutput = 100_000
		out, err := cmd.Output(ctx)
		if len(out) != 100_000 || err == nil || err.Error() != "proc: too much output" {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		exact := w.role("flood", "4096")
		exact.MaxOutput = 4096
		if out, err := exact.Output(ctx); len(out) != 4096 || err != nil {
			t.Errorf("output of the limit's size: %d bytes, %v", len(out), err)
		}
		negative := w.role("flood", "4096")
		negative.MaxOutput = -1
		if out, err := negative.Output(ctx); len(out) != 4096 || err != nil {
			t.Errorf("output with a negative limit: %d bytes, %v", len(out), err)
		}
		return nil
	})
}
