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
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
)

func TestRequestsAreServed(t *testing.T) {
	pool(t, process.Options{Processes: 3, Stderr: io.Discard}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
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
	pool(t, process.Options{}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		s, err := c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("items")})
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
	pool(t, process.Options{}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		for body, want := range map[string]string{
			"fail": "it fails", "exit": "exit status 7", "garbage": `it wrote "this is not a frame, but long enough to " instead of a frame`,
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

// TestRequestThatIsNoFrame fails, and its process goes on: it has got nothing of the request.
func TestRequestThatIsNoFrame(t *testing.T) {
	pool(t, process.Options{}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		before, err := c.Call(ctx, "work", []byte("pid"))
		if err != nil {
			return err
		}
		large := map[string]string{"Http-Query": strings.Repeat("x", frame.MaxHeader)}
		_, err = c.Do(ctx, relay.Envelope{Subject: "work", Headers: large})
		if remote := (*relay.RemoteError)(nil); !errors.As(err, &remote) || !strings.Contains(remote.Message, relay.ErrTooLarge.Error()) {
			t.Error(err)
		}
		after, err := c.Call(ctx, "work", []byte("pid"))
		if string(after) != string(before) {
			t.Errorf("process %s has been replaced by %s", before, after)
		}
		return err
	})
}

// TestCanceledRequest kills its process with the whole group.
func TestCanceledRequest(t *testing.T) {
	pool(t, process.Options{Grace: time.Millisecond}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		s, err := c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("child")})
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
		for proctest.Alive(pid) {
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
			pool(t, process.Options{Stderr: stderr}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
				s, err := c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("orphan")})
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
				for proctest.Alive(pid) {
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
	pool(t, process.Options{Grace: time.Minute}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		s, err := c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("cut")})
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

func TestLimitOfTime(t *testing.T) {
	pool(t, process.Options{MaxTime: time.Second, Grace: time.Millisecond}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		if _, err := c.Call(ctx, "work", []byte("block")); !strings.Contains(fmt.Sprint(err), "within Options.MaxTime") {
			t.Error(err)
		}
		for { // a new process may take long to start
			if _, err := c.Call(ctx, "work", nil); !strings.Contains(fmt.Sprint(err), "within Options.MaxTime") {
				return err
			}
		}
	})
}

// TestLimitOfMemory: a shell that has the limit reports it.
func TestLimitOfMemory(t *testing.T) {
	script := `limit=$(ulimit -v); exec python3 -c '
import json, os, socket, struct, sys
path = os.environ.get("SPINDLE_RELAY_SOCKET")
if path:
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    i = o = s.makefile("rwb")
else:
    i, o = sys.stdin.buffer, sys.stdout.buffer
limit = sys.argv[1].encode()
while True:
    size = i.read(8)
    if len(size) < 8: break
    all, n = struct.unpack(">II", size)
    head = json.loads(i.read(n)); i.read(all - 4 - n)
    out = json.dumps({"kind": "reply", "id": head["id"]}).encode()
    o.write(struct.pack(">II", 4 + len(out) + len(limit), len(out)) + out + limit); o.flush()
' "$limit"`
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	pool(t, process.Options{Command: []string{"/bin/sh", "-c", script}, MaxMemory: 4 << 30}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		if reply, err := c.Call(ctx, "work", nil); err != nil || string(reply) != "4194304" {
			t.Errorf("%q, %v", reply, err)
		}
		return nil
	})
}

func TestProgramThatDoesNotExist(t *testing.T) {
	noFilesLeft(t)
	for _, socket := range []bool{false, true} {
		err := spindle.Run(t.Context(), func(ctx context.Context) error {
			return process.Serve(ctx, relay.NewLocal(relay.LocalOptions{}), "work", process.Options{Command: []string{"no-such-program"}, Socket: socket})
		})
		if !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("socket %v: %v", socket, err)
		}
	}
}

func ExampleServe() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			bus := relay.NewLocal(relay.LocalOptions{})
			ready := spindle.NewFuture[struct{}](ctx)
			n.Go(func(ctx context.Context) error {
				return process.Serve(ctx, bus, "work", process.Options{
					Command: []string{os.Args[0]}, Env: append(os.Environ(), workerVariable+"=1"),
					Ready: func() { ready.Resolve(struct{}{}) },
				})
			})
			if _, err := ready.Await(ctx); err != nil {
				return err
			}
			c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
			if err != nil {
				return err
			}
			defer c.Close()
			reply, err := c.Call(ctx, "work", []byte("hello"))
			fmt.Println(string(reply))
			return err
		})
	})
	fmt.Println(err)
	// Output:
	// re: hello
	// <nil>
}
