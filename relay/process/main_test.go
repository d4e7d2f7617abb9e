package process_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/frame"
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
	if prepare := preparations[os.Getenv(workerVariable)]; prepare != nil {
		prepare()
	}
	if path := os.Getenv("SPINDLE_RELAY_SOCKET"); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			os.Exit(4)
		}
		fmt.Println("connected") // does not disturb
		input, output = conn, conn
	}
	if err := process.Work(input, output, work); err != nil {
		os.Exit(3)
	}
}

// input and output are those of a worker process.
var (
	input  io.Reader = os.Stdin
	output io.Writer = os.Stdout
)

func work(e *relay.Envelope, send func([]byte) error) ([]byte, error) {
	switch what := string(e.Body); what {
	case "pid":
		return strconv.AppendInt(nil, int64(os.Getpid()), 10), nil
	case "fail":
		return nil, errors.New("it fails")
	case "exit":
		os.Exit(7)
	case "garbage":
		fmt.Fprint(output, "this is not a frame, but long enough to be one")
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
			if out[i], err = frame.Append(nil, &a); err != nil {
				return nil, err
			}
		}
		half := len(out[2]) - len(out[0])
		if _, err := output.Write(append(out[1], out[2][:half]...)); err != nil {
			return nil, err
		}
		if _, err := frame.Read(input, 100); err != nil { // the cancellation
			return nil, err
		}
		if _, err := output.Write(out[2][half:]); err != nil {
			return nil, err
		}
		next, err := frame.Read(input, 100)
		if err != nil {
			return nil, err
		}
		e.ID = next.ID
		return strconv.AppendInt(nil, int64(os.Getpid()), 10), nil
	case "pairs": // two items in one piece, and then it waits for the cancellation
		var out []byte
		for i := range uint32(2) {
			var err error
			item := relay.Envelope{Kind: relay.KindItem, ID: e.ID, Seq: i + 1, Body: strconv.AppendInt(nil, int64(os.Getpid()), 10)}
			if out, err = frame.Append(out, &item); err != nil {
				return nil, err
			}
		}
		if _, err := output.Write(out); err != nil {
			return nil, err
		}
		_, err := frame.Read(input, 100)
		return nil, err
	case "twice": // it answers the cancel frame, and then the request
		if err := send(strconv.AppendInt(nil, int64(os.Getpid()), 10)); err != nil {
			return nil, err
		}
		cancel, err := frame.Read(input, 100)
		if err != nil {
			return nil, err
		}
		out, err := frame.Append(nil, &relay.Envelope{Kind: relay.KindFailure, ID: cancel.ID})
		if err != nil {
			return nil, err
		}
		_, err = output.Write(out)
		return []byte("late"), err
	case "double": // it answers twice at once
		answer := relay.Envelope{Kind: relay.KindReply, ID: e.ID, Body: strconv.AppendInt(nil, int64(os.Getpid()), 10)}
		out, err := frame.Append(nil, &answer)
		if err == nil {
			_, err = output.Write(append(out, out...))
		}
		if err != nil {
			return nil, err
		}
		select {}
	case "again": // it answers again when it has the next request
		if err := reply(e, strconv.AppendInt(nil, int64(os.Getpid()), 10)); err != nil {
			return nil, err
		}
		request, err := frame.Read(input, 100)
		if err != nil {
			return nil, err
		}
		if err := reply(e, []byte("second")); err != nil {
			return nil, err
		}
		if err := reply(request, strconv.AppendInt(nil, int64(os.Getpid()), 10)); err != nil {
			return nil, err
		}
		select {}
	case "linger": // it works for a while after its first item
		if err := send(nil); err != nil {
			return nil, err
		}
		return nil, exec.Command("sleep", "0.5").Run()
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

// reply writes a reply of a worker process.
func reply(e *relay.Envelope, body []byte) error {
	out, err := frame.Append(nil, &relay.Envelope{Kind: relay.KindReply, ID: e.ID, Body: body})
	if err == nil {
		_, err = output.Write(out)
	}
	return err
}

// pool runs fn with a caller of worker processes, once with pipes and once with sockets.
func pool(t *testing.T, o process.Options, fn func(t *testing.T, ctx context.Context, c *relay.Caller) error) {
	t.Helper()
	for name, socket := range map[string]bool{"pipes": false, "socket": true} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Socket = socket
			serve(t, o, fn)
		})
	}
}

// serve runs fn with a caller of worker processes, which must leave no files.
func serve(t *testing.T, o process.Options, fn func(t *testing.T, ctx context.Context, c *relay.Caller) error) {
	t.Helper()
	temporary := noFilesLeft(t)
	if o.Command == nil {
		o.Command = []string{os.Args[0]}
	}
	if o.Env == nil {
		o.Env = append(os.Environ(), workerVariable+"=1")
	}
	if o.Backoff == 0 {
		o.Backoff, o.MaxBackoff = time.Millisecond, 10*time.Millisecond
	}
	o.StartTimeout = cmp.Or(o.StartTimeout, time.Minute)
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
			if left, err := filepath.Glob(filepath.Join(temporary, "*", "*")); len(left) > 0 {
				t.Errorf("%q is left when the process has connected, %v", left, err)
			}
			return errors.Join(fn(t, ctx, c), c.Close())
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// noFilesLeft sets the directory for temporary files, which must be empty in the end.
func noFilesLeft(t *testing.T) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") // shorter than that of t
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			left, _ := filepath.Glob(filepath.Join(dir, "*"))
			t.Error(left, err)
			os.RemoveAll(dir)
		}
	})
	return dir
}
