package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
)

// workerVariable makes the test binary a worker process.
const workerVariable = "SPINDLE_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) == "" {
		leak.Main(m)
		return
	}
	if err := process.Work(os.Stdin, os.Stdout, work); err != nil {
		os.Exit(3)
	}
}

func work(e *relay.Envelope, send func([]byte) error) ([]byte, error) {
	switch what := string(e.Body); what {
	case "pid":
		return strconv.AppendInt(nil, int64(os.Getpid()), 10), nil
	case "fail":
		return nil, errors.New("it fails")
	case "exit":
		os.Exit(7)
	case "garbage":
		fmt.Print("this is not a frame, but long enough to be one")
	case "block":
		select {}
	case "child": // a process of the group
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		if err := send(strconv.AppendInt(nil, int64(cmd.Process.Pid), 10)); err != nil {
			return nil, err
		}
		select {}
	case "orphan": // like child, but it exits
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		if err := send(strconv.AppendInt(nil, int64(cmd.Process.Pid), 10)); err != nil {
			return nil, err
		}
		os.Exit(7)
	case "cut": // a frame that is cut by a cancellation, with a reply in its second half
		var out [3][]byte
		for i, a := range []relay.Envelope{
			{Kind: relay.KindReply, ID: e.ID},
			{Kind: relay.KindItem, ID: e.ID, Seq: 1, Body: strconv.AppendInt(nil, int64(os.Getpid()), 10)},
			{Kind: relay.KindItem, ID: e.ID, Seq: 2},
		} {
			if i == 2 {
				a.Body = out[0]
			}
			var err error
			if out[i], err = relay.AppendFrame(nil, &a, time.Time{}); err != nil {
				return nil, err
			}
		}
		half := len(out[2]) - len(out[0])
		if _, err := os.Stdout.Write(append(out[1], out[2][:half]...)); err != nil {
			return nil, err
		}
		if _, err := relay.ReadFrame(os.Stdin, 100); err != nil { // the cancellation
			return nil, err
		}
		if _, err := os.Stdout.Write(out[2][half:]); err != nil {
			return nil, err
		}
		next, err := relay.ReadFrame(os.Stdin, 100)
		if err != nil {
			return nil, err
		}
		e.ID = next.ID
		return strconv.AppendInt(nil, int64(os.Getpid()), 10), nil
	case "items":
		for i := range 40 {
			if err := send(fmt.Append(nil, i)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return append([]byte("re: "), e.Body...), nil
}

// pool runs fn with a caller of worker processes.
func pool(t *testing.T, o process.Options, fn func(ctx context.Context, c *relay.Caller) error) {
	t.Helper()
	if o.Command == nil {
		o.Command = []string{os.Args[0]}
		o.Env = append(os.Environ(), workerVariable+"=1")
	}
	o.Backoff, o.MaxBackoff = time.Millisecond, 10*time.Millisecond
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		bus := relay.NewLocal(relay.LocalOptions{})
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			n.Go(func(ctx context.Context) error { return process.Serve(ctx, bus, "work", o) })
			c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Minute})
			if err != nil {
				return err
			}
			for { // until the worker has subscribed
				_, err := c.Call(ctx, "work", nil)
				if err == nil {
					break
				}
				if !errors.Is(err, relay.ErrNoResponder) && !strings.Contains(err.Error(), "timed out") {
					return err
				}
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			return errors.Join(fn(ctx, c), c.Close())
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRequestsAreServed(t *testing.T) {
	pool(t, process.Options{Processes: 3}, func(ctx context.Context, c *relay.Caller) error {
		return spindle.ForEach(ctx, 10, make([]int, 100), func(ctx context.Context, _ int) error {
			reply, err := c.Call(ctx, "work", []byte("x"))
			if err == nil && string(reply) != "re: x" {
				err = fmt.Errorf("%q", reply)
			}
			return err
		})
	})
}

func TestItemsArriveInOrder(t *testing.T) {
	pool(t, process.Options{}, func(ctx context.Context, c *relay.Caller) error {
		s, err := c.Stream(ctx, "work", []byte("items"))
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range 40 {
			if item, err := s.Next(ctx); err != nil || string(item) != fmt.Sprint(i) {
				return fmt.Errorf("item %d is %q, %w", i, item, err)
			}
		}
		if _, err := s.Next(ctx); err != io.EOF {
			t.Error(err)
		}
		return nil
	})
}

// TestProcessThatFails is replaced, and only its own request fails.
func TestProcessThatFails(t *testing.T) {
	pool(t, process.Options{}, func(ctx context.Context, c *relay.Caller) error {
		for body, want := range map[string]string{
			"fail": "it fails", "exit": "exit status 7", "garbage": "relay: envelope too large",
		} {
			_, err := c.Call(ctx, "work", []byte(body))
			if remote := (*relay.RemoteError)(nil); !errors.As(err, &remote) || !strings.Contains(remote.Message, want) {
				t.Errorf("%s: %v", body, err)
			}
			if reply, err := c.Call(ctx, "work", []byte("x")); err != nil || string(reply) != "re: x" {
				return fmt.Errorf("after %s: %q, %w", body, reply, err)
			}
		}
		return nil
	})
}

// TestCanceledRequest kills its process with the whole group.
func TestCanceledRequest(t *testing.T) {
	pool(t, process.Options{Grace: time.Millisecond}, func(ctx context.Context, c *relay.Caller) error {
		s, err := c.Stream(ctx, "work", []byte("child"))
		if err != nil {
			return err
		}
		text, err := s.Next(ctx)
		if err != nil {
			return err
		}
		s.Close()
		pid, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		for alive(pid) {
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		_, err = c.Call(ctx, "work", nil)
		return err
	})
}

// TestProcessThatLeavesAnother: what is left of its group is killed.
func TestProcessThatLeavesAnother(t *testing.T) {
	for name, stderr := range map[string]io.Writer{"no errors": nil, "a file": os.Stderr, "a writer": io.Discard} {
		t.Run(name, func(t *testing.T) {
			pool(t, process.Options{Stderr: stderr}, func(ctx context.Context, c *relay.Caller) error {
				s, err := c.Stream(ctx, "work", []byte("orphan"))
				if err != nil {
					return err
				}
				defer s.Close()
				text, err := s.Next(ctx)
				if err != nil {
					return err
				}
				pid, err := strconv.Atoi(string(text))
				if err != nil {
					return err
				}
				for alive(pid) {
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestCutFrame: a process is not used again if a cancellation came in the middle of a frame.
func TestCutFrame(t *testing.T) {
	pool(t, process.Options{Grace: time.Minute}, func(ctx context.Context, c *relay.Caller) error {
		s, err := c.Stream(ctx, "work", []byte("cut"))
		if err != nil {
			return err
		}
		before, err := s.Next(ctx)
		if err != nil {
			return err
		}
		s.Close()
		after, err := c.Call(ctx, "work", []byte("pid"))
		if string(after) == string(before) {
			t.Error("it is used again")
		}
		return err
	})
}

// alive reports whether a process runs. One that nothing has reaped yet does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestLimitOfTime(t *testing.T) {
	pool(t, process.Options{MaxTime: 2 * time.Second, Grace: time.Millisecond}, func(ctx context.Context, c *relay.Caller) error {
		if _, err := c.Call(ctx, "work", []byte("block")); !strings.Contains(fmt.Sprint(err), "timed out") {
			t.Error(err)
		}
		for { // a new process may take long to start
			if _, err := c.Call(ctx, "work", nil); !strings.Contains(fmt.Sprint(err), "timed out") {
				return err
			}
		}
	})
}

// TestLimitOfMemory: a shell that has the limit reports it.
func TestLimitOfMemory(t *testing.T) {
	script := `limit=$(ulimit -v); exec python3 -c '
import json, struct, sys
limit = sys.argv[1].encode()
while True:
    size = sys.stdin.buffer.read(8)
    if len(size) < 8: break
    all, n = struct.unpack(">II", size)
    head = json.loads(sys.stdin.buffer.read(n)); sys.stdin.buffer.read(all - 4 - n)
    out = json.dumps({"kind": "reply", "id": head["id"]}).encode()
    sys.stdout.buffer.write(struct.pack(">II", 4 + len(out) + len(limit), len(out)) + out + limit); sys.stdout.buffer.flush()
' "$limit"`
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	pool(t, process.Options{Command: []string{"/bin/sh", "-c", script}, MaxMemory: 4 << 30}, func(ctx context.Context, c *relay.Caller) error {
		if reply, err := c.Call(ctx, "work", nil); err != nil || string(reply) != "4194304" {
			t.Errorf("%q, %v", reply, err)
		}
		return nil
	})
}

func TestProgramThatDoesNotExist(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return process.Serve(ctx, relay.NewLocal(relay.LocalOptions{}), "work", process.Options{Command: []string{"no-such-program"}})
	})
	if !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}

func ExampleServe() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			bus := relay.NewLocal(relay.LocalOptions{})
			n.Go(func(ctx context.Context) error {
				return process.Serve(ctx, bus, "work", process.Options{
					Command: []string{os.Args[0]}, Env: append(os.Environ(), workerVariable+"=1"),
				})
			})
			c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
			if err != nil {
				return err
			}
			defer c.Close()
			for {
				reply, err := c.Call(ctx, "work", []byte("hello"))
				if !errors.Is(err, relay.ErrNoResponder) { // until the process has started
					fmt.Println(string(reply))
					return err
				}
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
		})
	})
	fmt.Println(err)
	// Output:
	// re: hello
	// <nil>
}
