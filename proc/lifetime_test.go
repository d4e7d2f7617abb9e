package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/stream"
)

// ready starts a role and waits until it prints that it is ready.
func ready(t *testing.T, ctx context.Context, cmd *proc.Cmd) (*proc.Process, error) {
	t.Helper()
	cmd.Stdout = proc.Pipe
	p, err := cmd.Start(ctx)
	if err == nil {
		expect(t, p.Stdout, "ready\n")
	}
	return p, err
}

func TestKilledBySignal(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			p, err := ready(t, ctx, w.role("forever"))
			if err != nil {
				return err
			}
			defer p.Close()
			if p.State() != nil || p.Pid() <= 0 {
				t.Errorf("state %v, pid %d", p.State(), p.Pid())
			}
			if err := p.Signal(sig); err != nil {
				t.Error(err)
			}
			var exit *exec.ExitError
			for range 2 {
				if err := p.Wait(ctx); !errors.As(err, &exit) || exit.ExitCode() != -1 || status(p).Signal() != sig {
					t.Errorf("%v: %v", sig, err)
				}
			}
			if err := p.Kill(); err != os.ErrProcessDone {
				t.Errorf("Kill after the exit: %v", err)
			}
		}
		return nil
	})
}

// TestCancellationEndsTheChild covers children that exit on SIGTERM and children
// that ignore it.
func TestCancellationEndsTheChild(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		for _, c := range []struct {
			role  string
			grace time.Duration
			sig   syscall.Signal // 0 if the child exits by itself
		}{{"forever", time.Hour, syscall.SIGTERM}, {"polite", time.Hour, 0}, {"stubborn", time.Millisecond, syscall.SIGKILL}, {"stubborn", -1, syscall.SIGKILL}} {
			cmd := w.role(c.role)
			cmd.Grace = c.grace
			var p *proc.Process
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) (err error) {
				if p, err = ready(t, ctx, cmd); err != nil {
					return err
				}
				s.Cancel(nil)
				return p.Wait(ctx)
			})
			if err != nil {
				t.Errorf("the scope returned %v", err)
			}
			p.Wait(ctx)
			if got := status(p); c.sig != 0 && got.Signal() != c.sig || c.sig == 0 && got.ExitStatus() != 0 {
				t.Errorf("%s with grace %v: %v", c.role, c.grace, p.State())
			}
			if _, err := p.Stdout.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("the pipe is still open: %v", err)
			}
		}
		return nil
	})
}

// TestRunReturnsAfterTheChildExits covers a cancelled scope and a cancelled context
// of the standard library.
func TestRunReturnsAfterTheChildExits(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cancelAtFirstWord := func(cancel func()) *proc.Cmd {
			cmd := w.role("stubborn")
			cmd.Grace = time.Millisecond
			cmd.Stdout = writer(func(p []byte) (int, error) { cancel(); return len(p), nil })
			return cmd
		}
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			err := cancelAtFirstWord(func() { s.Cancel(nil) }).Run(ctx)
			noChildren(t)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("scope: %v", err)
			}
			return err
		})
		if err != nil {
			t.Errorf("the scope did not absorb its cancellation: %v", err)
		}
		std, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := cancelAtFirstWord(cancel).Run(std); !errors.Is(err, context.Canceled) {
			t.Errorf("context: %v", err)
		}
		noChildren(t)
		return nil
	})
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestCancelledBeforeStart(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			cmd := w.role("forever")
			cmd.Stdin = proc.Pipe
			p, err := cmd.Start(ctx)
			if p != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("%v, %v", p, err)
			}
			noChildren(t)
			return err
		})
	})
}

// TestCancelledAtAnyTime checks that nothing remains, whenever the cancellation
// comes.
func TestCancelledAtAnyTime(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		for i := range 40 {
			n.Go(func(ctx context.Context) error {
				_, err := spindle.MoveOnAfter(ctx, time.Duration(i)*time.Millisecond/2, func(ctx context.Context) error {
					cmd := w.cmd(proc.Command("cat"))
					cmd.Stdin, cmd.Stdout = proc.Pipe, proc.Pipe
					p, err := cmd.Start(ctx)
					if err != nil {
						return err
					}
					return p.Wait(ctx)
				})
				return err
			})
		}
		return nil
	})
}

func TestLeavingTheScopeEndsTheChild(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		var p *proc.Process
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) (err error) {
			p, err = ready(t, ctx, w.role("forever"))
			return err
		})
		if err != nil {
			return err
		}
		p.Wait(ctx)
		if status(p).Signal() != syscall.SIGTERM {
			t.Error(p.State())
		}
		return nil
	})
}

// TestRunEndsItsChildren relies on eachVariant to find children that remain.
func TestRunEndsItsChildren(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		stubborn := w.role("stubborn")
		stubborn.Grace = time.Millisecond
		_, err := ready(t, ctx, stubborn)
		_, err2 := ready(t, ctx, w.role("forever"))
		return errors.Join(err, err2)
	})
}

func TestCmdCancel(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.role("forever")
		cmd.Grace = time.Hour
		cmd.Cancel = func(p *proc.Process) error { return p.Signal(syscall.SIGUSR1) } // makes the role exit
		var p *proc.Process
		spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) (err error) {
			p, err = ready(t, ctx, cmd)
			return err
		})
		if err := p.Wait(ctx); err != nil {
			t.Error(err)
		}
		return nil
	})
}

// TestCancelledWaitLeavesTheChildAlone also covers several waiters.
func TestCancelledWaitLeavesTheChildAlone(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.cmd(proc.Command("cat"))
		cmd.Stdin = proc.Pipe
		p, err := cmd.Start(ctx)
		if err != nil {
			return err
		}
		expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, p.Wait)
		if !expired || err != nil || p.State() != nil {
			t.Errorf("%v, %v, %v", expired, err, p.State())
		}
		ended := 0
		for range 3 {
			n.Go(func(ctx context.Context) error {
				err := p.Wait(ctx)
				if ended++; ended == 3 {
					p.Close()
				}
				return err
			})
		}
		return p.Stdin.Close()
	})
}

// TestEndlessInputDoesNotDelayTheExit: the child exits without reading all its
// input.
func TestEndlessInputDoesNotDelayTheExit(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		r, wr, err := stream.Pipe(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		defer wr.Close()
		cmd := w.role("exit", "0")
		cmd.Stdin = r
		if err := cmd.Run(ctx); err != nil {
			t.Error(err)
		}
		cmd = w.cmd(proc.Command("head", "-c", "1"))
		cmd.Stdin = bytes.NewReader(pattern(1 << 20)) // more than the pipe holds
		out, err := cmd.Output(ctx)
		if string(out) != "0" {
			t.Errorf("%q", out)
		}
		return err
	})
}

// TestInheritedPipeDoesNotDelayForever: the child has exited, but a process that
// inherited its output is running.
func TestInheritedPipeDoesNotDelayForever(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		var out bytes.Buffer
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			cmd := w.cmd(proc.Command("sh", "-c", "sleep 3600 & echo $!"))
			cmd.Grace = time.Millisecond
			cmd.Stdout = writer(func(p []byte) (int, error) {
				s.Cancel(nil)
				return out.Write(p)
			})
			return cmd.Run(ctx)
		})
		heir, _ := strconv.Atoi(strings.TrimSpace(out.String()))
		if heir <= 0 || syscall.Kill(heir, syscall.SIGKILL) != nil {
			t.Errorf("the inheriting process printed %q", out.String())
		}
		return err
	})
}

// TestBlockedWriterDoesNotDelayForever: the output is copied to a connection that is
// not read.
func TestBlockedWriterDoesNotDelayForever(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		r, wr, err := stream.Pipe(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		defer wr.Close()
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			n.Go(func(ctx context.Context) error {
				for !strings.Contains(spindle.TreeOf(ctx).String(), "Conn.Write") {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				s.Cancel(nil)
				return nil
			})
			cmd := w.cmd(proc.Command("cat", "/dev/zero"))
			cmd.Grace = time.Millisecond
			cmd.Stdout = wr
			return cmd.Run(ctx)
		})
	})
}

// TestFailingWriter checks that Run returns the writer's error and that the child
// learns that its output is not read.
func TestFailingWriter(t *testing.T) {
	oops := errors.New("oops")
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.role("fail")
		cmd.Stdout = writer(func([]byte) (int, error) { return 0, oops })
		var exit *exec.ExitError
		if err := cmd.Run(ctx); !errors.As(err, &exit) { // the child's own failure comes first
			t.Error(err)
		}
		cmd = w.cmd(proc.Command("echo", "hello"))
		cmd.Stdout = writer(func([]byte) (int, error) { return 0, oops })
		if err := cmd.Run(ctx); !errors.Is(err, oops) {
			t.Error(err)
		}
		cmd = w.cmd(proc.Command("cat", "/dev/zero"))
		cmd.Stdout = writer(func([]byte) (int, error) { return 0, oops })
		if err := cmd.Run(ctx); err == nil {
			t.Error("an endless child returned no error")
		}
		return nil
	})
}

// TestLinesAsTheyArrive reads a child's output while it is running.
func TestLinesAsTheyArrive(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		p, err := ready(t, ctx, w.role("polite"))
		if err != nil {
			return err
		}
		defer p.Close()
		p.Signal(syscall.SIGTERM)
		line, err := bufio.NewReader(p.Stdout).ReadString('\n')
		if line != "bye\n" {
			t.Errorf("%q", line)
		}
		return errors.Join(err, p.Wait(ctx))
	})
}
