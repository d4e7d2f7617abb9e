package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
	"github.com/spindleloop/spindle/tracing"
)

// pythonWorker is a worker with the module spindle.relay.
const pythonWorker = `
import asyncio, os
from spindle import relay

async def handle(request):
    print("text")
    if not request.body:
        return
    what, _, rest = request.body.decode().partition(" ")
    if what == "upper":
        request.reply_headers["Length"] = str(len(rest))
        return rest.upper()
    if what == "fail":
        raise ValueError(rest)
    if what == "die":
        os._exit(1)
    if what == "trace":
        return request.traceparent
    if what == "pid":
        return str(os.getpid())
    if what == "wait":
        open(rest, "w").close()
        await asyncio.Event().wait()
    for i in range(int(rest)):
        await request.send(b"%d" % i)

relay.work(handle)
`

// TestWorkersInPython: replies, headers, items, failures, traces and cancellation of spindle.relay.
func TestWorkersInPython(t *testing.T) {
	python := os.Getenv("SPINDLE_PYTHON")
	if python == "" {
		t.Skip("SPINDLE_PYTHON is not set: it names an interpreter with the package spindle-loop")
	}
	note := filepath.Join(t.TempDir(), "note")
	o := process.Options{Command: []string{python, "-c", pythonWorker}, Env: os.Environ(), Stderr: io.Discard, Grace: time.Minute}
	pool(t, o, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		defer os.Remove(note)
		return callPython(ctx, t, c, note)
	})
}

func callPython(ctx context.Context, t *testing.T, c *relay.Caller, note string) error {
	reply, err := c.Do(ctx, relay.Envelope{Subject: "work", Body: []byte("upper abc")})
	if err != nil || string(reply.Body) != "ABC" || reply.Headers["Length"] != "3" {
		return fmt.Errorf("%v, %w", reply, err)
	}
	trace := tracing.Context{ID: [16]byte{1}, Span: [8]byte{2}}
	if got, err := c.Call(tracing.With(ctx, trace), "work", []byte("trace")); err != nil || string(got) != trace.String() {
		t.Errorf("trace %s, %v", got, err)
	}
	failed := (*relay.RemoteError)(nil)
	if _, err := c.Call(ctx, "work", []byte("fail text")); !errors.As(err, &failed) || failed.Message != "ValueError: text" {
		t.Error(err)
	}
	pid, err := c.Call(ctx, "work", []byte("pid"))
	if err != nil {
		return err
	}
	_, err = spindle.MoveOnAfter(ctx, time.Minute, func(ctx context.Context) error { // cancelled when the handler runs
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, err := c.Call(ctx, "work", []byte("wait "+note))
				return err
			})
			for {
				if _, err := os.Stat(note); err == nil {
					n.Scope().Cancel(nil)
					return nil
				}
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
		})
	})
	if err != nil {
		return err
	}
	if again, err := c.Call(ctx, "work", []byte("pid")); err != nil || string(again) != string(pid) {
		t.Errorf("a process that answers a cancellation was replaced: %s, %s, %v", pid, again, err)
	}
	s, err := c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("count 200")})
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range 200 {
		if item, err := s.Next(ctx); err != nil || string(item) != fmt.Sprint(i) {
			return fmt.Errorf("item %d: %s, %w", i, item, err)
		}
	}
	if _, err := s.Next(ctx); err != io.EOF {
		t.Error(err)
	}
	if _, err := c.Call(ctx, "work", []byte("die")); err == nil {
		t.Error("the call of a process that ended has a reply")
	}
	again, err := c.Call(ctx, "work", []byte("pid"))
	if err != nil || string(again) == string(pid) {
		t.Error(string(again), err)
	}
	return err
}
