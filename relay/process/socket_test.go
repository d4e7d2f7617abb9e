package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// markerVariable names a file that the first worker process makes.
const markerVariable = "SPINDLE_TEST_MARKER"

// preparations are what workers do before they connect, by the value of workerVariable.
var preparations = map[string]func(){
	"never": func() { select {} },
	"once": func() { // only the first one connects
		if !first() {
			select {}
		}
	},
	"signal": waitForSignal,
	"later": func() { // all but the first one wait
		if !first() {
			waitForSignal()
		}
	},
	"detached": func() { // leaves the connecting to a process outside of its group
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), workerVariable+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Run(); err == nil { // it was refused, and so its input has ended
			os.Exit(9)
		}
	},
}

// first reports whether this is the first worker process.
func first() bool {
	f, err := os.OpenFile(os.Getenv(markerVariable), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// waitForSignal prints the number of the process and the path of its socket, and waits.
func waitForSignal() {
	ready := make(chan os.Signal, 1)
	signal.Notify(ready, syscall.SIGUSR1)
	fmt.Println(os.Getpid(), os.Getenv("SPINDLE_RELAY_SOCKET"))
	<-ready
}

// prepared returns options for workers that prepare themselves in a certain way.
func prepared(t *testing.T, how string) process.Options {
	return process.Options{
		Socket: true, StartTimeout: time.Minute, Command: []string{os.Args[0]},
		Env: append(os.Environ(), workerVariable+"="+how, markerVariable+"="+t.TempDir()+"/marker"),
	}
}

// serveAlone returns the error of Serve, which ends by itself.
func serveAlone(t *testing.T, o process.Options) error {
	t.Helper()
	noFilesLeft(t)
	return spindle.Run(t.Context(), func(ctx context.Context) error {
		return process.Serve(ctx, relay.NewLocal(relay.LocalOptions{}), "work", o)
	})
}

// lines collects what processes print, on the loop.
type lines struct{ strings.Builder }

// waiting returns the number and the path that waitForSignal has printed.
func (l *lines) waiting(ctx context.Context) (pid int, path string, err error) {
	for {
		for line := range strings.Lines(l.String()) {
			if n, _ := fmt.Sscan(line, &pid, &path); n == 2 && strings.HasSuffix(line, "\n") {
				return pid, path, nil
			}
		}
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return 0, "", err
		}
	}
}

func TestProcessThatNeverConnects(t *testing.T) {
	o := prepared(t, "never")
	o.StartTimeout = 10 * time.Millisecond
	if err := serveAlone(t, o); !errors.Is(err, process.ErrStartTimeout) {
		t.Error(err)
	}
}

// TestLaterProcessThatNeverConnects fails the request that it was started for.
func TestLaterProcessThatNeverConnects(t *testing.T) {
	noFilesLeft(t)
	for limit := 200 * time.Millisecond; ; limit *= 2 {
		o := prepared(t, "once")
		o.StartTimeout = limit
		var failed error
		err := spindle.Run(t.Context(), func(ctx context.Context) error {
			bus := relay.NewLocal(relay.LocalOptions{})
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				defer n.Scope().Cancel(nil)
				n.Go(func(ctx context.Context) error { return process.Serve(ctx, bus, "work", o) })
				if _, failed = call(ctx, bus, "exit"); strings.Contains(fmt.Sprint(failed), "exit status 7") {
					_, failed = call(ctx, bus, "")
				}
				return nil
			})
		})
		if errors.Is(err, process.ErrStartTimeout) {
			continue // the first process was too slow, on a machine that is busy
		}
		if remote := (*relay.RemoteError)(nil); err != nil || !errors.As(failed, &remote) || !strings.Contains(remote.Message, process.ErrStartTimeout.Error()) {
			t.Errorf("%v, %v", failed, err)
		}
		return
	}
}

// call makes a call as soon as there is a worker.
func call(ctx context.Context, bus relay.Bus, body string) (string, error) {
	c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Minute})
	if err != nil {
		return "", err
	}
	defer c.Close()
	for {
		reply, err := c.Call(ctx, "work", []byte(body))
		if !errors.Is(err, relay.ErrNoResponder) {
			return string(reply), err
		}
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return "", err
		}
	}
}

func TestProcessThatExitsBeforeItConnects(t *testing.T) {
	err := serveAlone(t, process.Options{Socket: true, Command: []string{"/bin/sh", "-c", "exit 5"}})
	if !errors.Is(err, process.ErrExited) || !strings.Contains(err.Error(), "exit status 5") {
		t.Error(err)
	}
}

// TestProcessThatLeavesItsGroup is refused: it could not be killed.
func TestProcessThatLeavesItsGroup(t *testing.T) {
	err := serveAlone(t, prepared(t, "detached"))
	if !errors.Is(err, process.ErrExited) || !strings.Contains(err.Error(), "exit status 9") {
		t.Error(err)
	}
}

// TestForeignConnection: another process finds the socket before the worker connects.
func TestForeignConnection(t *testing.T) {
	var out lines
	o := prepared(t, "signal")
	o.Stderr = &out
	noFilesLeft(t)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{})
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			n.Go(func(ctx context.Context) error { return process.Serve(ctx, bus, "work", o) })
			pid, path, err := out.waiting(ctx)
			if err != nil {
				return err
			}
			if info, err := os.Stat(path[:strings.LastIndexByte(path, '/')]); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the directory: %v, %v", info.Mode(), err)
			}
			conn, err := stream.Dial(ctx, "unix", path)
			if err != nil {
				return err
			}
			defer conn.Close()
			if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%d bytes, %v", n, err)
			}
			if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
				return err
			}
			reply, err := call(ctx, bus, "pid")
			if reply != fmt.Sprint(pid) {
				t.Errorf("process %s answers instead of %d", reply, pid)
			}
			return err
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCallCanceledWhileItsProcessStarts: the process serves the next call.
func TestCallCanceledWhileItsProcessStarts(t *testing.T) {
	var out lines
	o := prepared(t, "later")
	o.Stderr = &out
	serve(t, o, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		if _, err := c.Call(ctx, "work", []byte("exit")); err == nil {
			t.Error("a process that exits answers")
		}
		pid := 0
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			n.Go(func(ctx context.Context) error {
				_, err := c.Call(ctx, "work", nil)
				return err
			})
			var err error
			pid, _, err = out.waiting(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
			return err
		}
		reply, err := c.Call(ctx, "work", []byte("pid"))
		if string(reply) != fmt.Sprint(pid) {
			t.Errorf("process %s answers instead of %d", reply, pid)
		}
		return err
	})
}

// TestServeCanceledWhileTheFirstProcessStarts returns at once.
func TestServeCanceledWhileTheFirstProcessStarts(t *testing.T) {
	var out lines
	o := prepared(t, "signal")
	o.StartTimeout, o.Stderr = time.Hour, &out
	noFilesLeft(t)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				return process.Serve(ctx, relay.NewLocal(relay.LocalOptions{}), "work", o)
			})
			_, _, err := out.waiting(ctx)
			n.Scope().Cancel(nil)
			return err
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOutputOfAProcessWithASocket goes where its standard error goes.
func TestOutputOfAProcessWithASocket(t *testing.T) {
	var out lines
	serve(t, process.Options{Socket: true, Stderr: &out}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		for !strings.Contains(out.String(), "connected\n") {
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestWorkerStartedByAShell: the process that connects is not the one that was started.
func TestWorkerStartedByAShell(t *testing.T) {
	o := process.Options{Command: []string{"/bin/sh", "-c", `"$0"; exit $?`, os.Args[0]}}
	pool(t, o, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		_, err := c.Call(ctx, "work", []byte("x"))
		return err
	})
}

func TestSimulatedRunHasNoProcesses(t *testing.T) {
	noFilesLeft(t)
	for _, socket := range []bool{false, true} {
		err := sim.Run(t.Context(), func(ctx context.Context) error {
			err := process.Serve(ctx, relay.NewLocal(relay.LocalOptions{}), "work", process.Options{Command: []string{"true"}, Socket: socket})
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("socket %v: %v", socket, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
