package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/proc"
)

// The test binary is the child, too: with this variable in the environment it plays
// the role in its arguments.
const roleVariable = "SPINDLE_PROC_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(roles[os.Args[1]](os.Args[2:]))
	}
	leak.Main(m)
}

// roles are the programs of a child; each returns its exit status.
var roles = map[string]func(args []string) int{
	"exit": func(args []string) int {
		code, _ := strconv.Atoi(args[0])
		return code
	},
	"flood": func(args []string) int { // both pipes at once
		size, _ := strconv.Atoi(args[0])
		done := make(chan error)
		for _, f := range []*os.File{os.Stdout, os.Stderr} {
			go func() {
				_, err := f.Write(pattern(size))
				done <- err
			}()
		}
		if errors.Join(<-done, <-done) != nil {
			return 1
		}
		return 0
	},
	"forever": func(args []string) int { return hang() }, // exits on SIGTERM
	"stubborn": func(args []string) int {
		signal.Ignore(syscall.SIGTERM)
		return hang()
	},
	"polite": func(args []string) int {
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("ready")
		<-term
		fmt.Println("bye")
		return 0
	},
	"env": func(args []string) int {
		dir, _ := os.Getwd()
		fmt.Printf("%s %s", os.Getenv(args[0]), dir)
		return 0
	},
	"inherit": func(args []string) int {
		f := os.NewFile(3, "extra")
		fmt.Fprint(f, "to descriptor 3")
		return 0
	},
	"fail": func(args []string) int {
		fmt.Println("some output")
		fmt.Fprintln(os.Stderr, "what went wrong")
		return 7
	},
	"abandon": abandonChild,
	"receive": receiveThenDie,
}

// hang does nothing until SIGUSR1.
func hang() int {
	enough := make(chan os.Signal, 1)
	signal.Notify(enough, syscall.SIGUSR1)
	fmt.Println("ready")
	<-enough
	return 0
}

func pattern(size int) []byte {
	return bytes.Repeat([]byte("0123456789abcde\n"), size/16)
}

// role returns a command for a child that plays one of the roles.
func role(name string, args ...string) *proc.Cmd {
	cmd := proc.Command(os.Args[0], append([]string{name}, args...)...)
	// Under the race detector a program sleeps for a second before it exits, unless
	// this is set.
	cmd.Env = append(os.Environ(), roleVariable+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// variant is one configuration of the package.
type variant struct {
	backend string
	handles bool
}

func (w variant) role(name string, args ...string) *proc.Cmd { return w.cmd(role(name, args...)) }

func (w variant) cmd(cmd *proc.Cmd) *proc.Cmd {
	if !w.handles {
		cmd.WithoutPidfd()
	}
	return cmd
}

// eachVariant runs a program on each backend, with and without pidfds, and checks
// that no children remain after the run.
func eachVariant(t *testing.T, program func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error) {
	t.Helper()
	for _, backend := range short.Backends() {
		for _, handles := range []bool{true, false} {
			name := backend
			if !handles {
				name += " without pidfd"
			}
			t.Run(name, func(t *testing.T) {
				err := spindle.Options{Loop: loop.Options{Backend: backend}}.Run(t.Context(), func(ctx context.Context) error {
					return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
						return program(t, variant{backend, handles}, ctx, n)
					})
				})
				if err != nil {
					t.Error(err)
				}
				noChildren(t)
			})
		}
	}
}

// noChildren checks that every child has exited and was reaped.
func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child remains: %d, %v", pid, err)
	}
}

// expect reads the child's first output.
func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Errorf("the child printed %q, %v", got, err)
	}
}

// status returns the wait status of a process.
func status(p *proc.Process) syscall.WaitStatus { return p.State().Sys().(syscall.WaitStatus) }

// notify makes ch receive signals for the duration of a test.
func notify(t *testing.T, ch chan os.Signal, sigs ...os.Signal) {
	signal.Notify(ch, sigs...)
	t.Cleanup(func() { signal.Stop(ch) })
}
