package nats_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
	"github.com/spindleloop/spindle/tracing"
)

// python returns the interpreter for tests with workers and callers in Python.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SPINDLE_PYTHON")
	if path == "" {
		t.Skip("SPINDLE_PYTHON is not set: it names an interpreter with the packages spindle-loop and nats-py")
	}
	return path
}

const pythonWorker = `
import asyncio, sys
import nats
import spindle
from spindle import relay

async def handle(request):
    what, _, rest = request.body.decode().partition(" ")
    if what == "upper":
        request.reply_headers["Length"] = str(len(rest))
        return rest.upper()
    if what == "fail":
        raise ValueError(rest)
    if what == "trace":
        return request.traceparent
    if what == "header":
        return request.headers[rest]
    if what == "large":
        return bytes(int(rest))
    if what == "dict":
        return {}
    if what == "number":
        request.reply_headers["Length"] = 3
        return b""
    if what == "text":
        raise ValueError("x" * 2_000_000)
    if what == "item":
        await request.send(bytes(int(rest)))
        return b""
    if what == "wait":
        print("waiting", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            print("cancelled", flush=True)
    for i in range(int(rest)):
        await request.send(b"%d" % i)

async def main(url):
    connection = await nats.connect(url, connect_timeout=60)
    bus = relay.Nats(connection)
    worker = asyncio.create_task(relay.Worker(bus).serve(handle, "work", concurrency=64))
    async with relay.Caller(bus) as caller:
        while True:  # until one worker serves, perhaps this one
            try:
                await caller.call("work", b"upper x", timeout=5)
                break
            except (relay.NoResponder, TimeoutError):  # or another one, which was killed
                await asyncio.sleep(0.01)
    print("ready", flush=True)
    await worker

spindle.run(main(sys.argv[1]))
`

const pythonCalls = `
import asyncio, sys
import nats
import spindle
from spindle import host, relay

async def fails(expected, coroutine):
    try:
        await coroutine
    except expected as e:
        return e
    raise AssertionError(f"no {expected.__name__}")

async def main(url):
    connection = await nats.connect(url, connect_timeout=60)
    bus = relay.Nats(connection)
    async with relay.Caller(bus, timeout=60) as caller:
        assert await caller.call("work", b"upper hello") == b"HELLO"
        assert await caller.call("work", b"header X-Name", headers={"X-Name": "a value"}) == b"a value"
        assert [item async for item in caller.stream("work", b"count 1000")] == [b"%d" % i for i in range(1000)]
        failure = await fails(relay.RemoteError, caller.call("work", b"fail on purpose"))
        assert failure.code == "error" and str(failure) == "work: on purpose", failure
        await fails(relay.NoResponder, caller.call("unserved"))
        await fails(TimeoutError, caller.call("work", b"wait", timeout=0.05))
        items = caller.stream("work", b"wait")
        assert await anext(items) == b"waiting"
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        waiting.cancel()
        await fails(asyncio.CancelledError, waiting)
        await fails(ValueError, caller.call("work", bytes(2_000_000)))
        await fails(ValueError, caller.call("work", bytes(1048570), headers={"X-Name": "a value"}))
        await fails(ValueError, caller.call("work", headers={"Nats-Name": "x"}))
        host.traceparent.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        assert (await caller.call("work", b"trace")).startswith(b"00-0af7651916cd43dd8448eb211c80319c-")
        assert caller.stats.waiting == 0 and bus.dropped == 0
        waiting = asyncio.create_task(caller.call("work", b"wait"))
        await asyncio.sleep(0)
        await bus.drain()
        await connection.close()
        assert (await fails(relay.RemoteError, waiting)).code == "closed"
        await fails(ConnectionError, caller.call("work", b"upper hello"))

    connection = await nats.connect(url, connect_timeout=60)
    bus = relay.Nats(connection)
    serving = asyncio.create_task(relay.Worker(bus).serve(lambda request: b"", "other"))
    async with relay.Caller(bus) as caller:
        waiting = asyncio.create_task(caller.call("work", b"wait"))
        await asyncio.sleep(0)
        await bus.drain()
        await connection.drain()
        assert (await fails(relay.RemoteError, waiting)).code == "closed"
    await serving

    connection = await nats.connect(url, connect_timeout=60)
    bus = relay.Nats(connection)
    for pause in range(20):  # at different steps of serve
        serving = asyncio.create_task(relay.Worker(bus).serve(lambda request: b"", "other"))
        for _ in range(pause):
            await asyncio.sleep(0)
        serving.cancel()
        await asyncio.wait([serving])
    await connection.close()

spindle.run(main(sys.argv[1]))
`

// process is a worker process, and the lines that it prints.
type process struct {
	*exec.Cmd
	printed *bufio.Scanner
}

// launch starts a worker process, and returns when it serves.
func launch(t *testing.T, command []string, env ...string) *process {
	p := &process{Cmd: exec.Command(command[0], command[1:]...)}
	p.Env, p.Stderr = append(os.Environ(), env...), os.Stderr
	printed, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		panic(err) // the goroutine that kills cannot end the test
	}
	p.printed = bufio.NewScanner(printed)
	p.expect(t, "ready")
	return p
}

// expect reads a line.
func (p *process) expect(t *testing.T, line string) {
	t.Helper()
	if !p.printed.Scan() || p.printed.Text() != line {
		t.Errorf("the worker printed %q, %v, want %q", p.printed.Text(), p.printed.Err(), line)
	}
}

// kill ends the process.
func (p *process) kill() {
	p.Process.Kill()
	p.Wait()
}

// TestWorkersInPython: replies, headers, items with credit, failures, traces, and cancellation.
func TestWorkersInPython(t *testing.T) {
	interpreter := python(t)
	b := start(t, broker.Options{})
	bus := connect(t, b, nats.Options{})
	worker := launch(t, []string{interpreter, "-c", pythonWorker, b.URL()})
	defer worker.kill()
	c := caller(t, bus)
	call := func(body string) (string, error) {
		reply, err := c.Call(t.Context(), "work", []byte(body))
		return string(reply), err
	}
	until.Holds(t, func() bool {
		_, err := call("upper x")
		return !errors.Is(err, relay.ErrNoResponder)
	})
	if reply, err := call("upper hello"); reply != "HELLO" || err != nil {
		t.Errorf("got %q, %v", reply, err)
	}
	var remote *relay.RemoteError
	if _, err := call("fail on purpose"); !errors.As(err, &remote) || remote.Code != "error" || remote.Message != "ValueError: on purpose" {
		t.Errorf("got %v", err)
	}
	if _, err := call("large 2000000"); !errors.As(err, &remote) || remote.Code != "too-large" {
		t.Errorf("got %v", err)
	}
	for _, body := range []string{"dict", "number", "text"} {
		if _, err := call(body); !errors.As(err, &remote) || remote.Code != "error" {
			t.Errorf("%s: got %v", body, err)
		}
	}
	nearly, err := c.Stream(t.Context(), relay.Envelope{Subject: "work", Body: []byte("item 1048570")}) // with its headers it is larger than NATS takes
	if err != nil {
		t.Fatal(err)
	}
	defer nearly.Close()
	if _, err := nearly.Next(t.Context()); !errors.As(err, &remote) || remote.Code != "too-large" {
		t.Errorf("got %v", err)
	}
	e, err := c.Do(t.Context(), relay.Envelope{Subject: "work", Body: []byte("header X-Name"), Headers: map[string]string{"X-Name": "a value"}})
	if err != nil || string(e.Body) != "a value" {
		t.Errorf("got %v, %v", e, err)
	}
	e, err = c.Do(t.Context(), relay.Envelope{Subject: "work", Body: []byte("upper abc")})
	if err != nil || e.Headers["Length"] != "3" {
		t.Errorf("got %v, %v", e, err)
	}
	trace, _ := tracing.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	e, err = c.Do(tracing.With(t.Context(), trace), relay.Envelope{Subject: "work", Body: []byte("trace")})
	if err != nil || !strings.HasPrefix(string(e.Body), "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("got %v, %v", e, err)
	}
	items(t, c, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		worker.expect(t, "waiting")
		cancel()
	}()
	if _, err := c.Call(ctx, "work", []byte("wait")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	worker.expect(t, "cancelled")
}

// TestCallersInPython: what TestWorkersInPython tests, from the other side.
func TestCallersInPython(t *testing.T) {
	interpreter := python(t)
	b := start(t, broker.Options{})
	canceled := make(chan struct{}, 1)
	ready := make(chan struct{})
	go relay.NewWorker(connect(t, b, nats.Options{})).Serve(t.Context(), "work", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		what, rest, _ := strings.Cut(string(r.Body), " ")
		switch what {
		case "upper":
			return []byte(strings.ToUpper(rest)), nil
		case "header":
			return []byte(r.Headers[rest]), nil
		case "trace":
			return []byte(r.Trace.String()), nil
		case "fail":
			return nil, errors.New(rest)
		case "wait":
			sent := r.Send(ctx, []byte("waiting"))
			<-ctx.Done()
			if sent == nil { // a stream
				canceled <- struct{}{}
			}
			return nil, ctx.Err()
		}
		n, err := strconv.Atoi(rest)
		for i := 0; i < n && err == nil; i++ {
			err = r.Send(ctx, []byte(strconv.Itoa(i)))
		}
		return nil, err
	}, relay.ServeOptions{Ready: func() { close(ready) }})
	<-ready
	if printed, err := exec.Command(interpreter, "-c", pythonCalls, b.URL()).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	<-canceled
}

// items reads a stream of n items, which is more than the credit that the worker begins with.
func items(t *testing.T, c *relay.Caller, n int) {
	t.Helper()
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work", Body: fmt.Appendf(nil, "count %d", n)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range n {
		if item, err := s.Next(t.Context()); err != nil || string(item) != strconv.Itoa(i) {
			t.Fatalf("item %d is %q, %v", i, item, err)
		}
	}
	if _, err := s.Next(t.Context()); err != io.EOF {
		t.Errorf("after the last item: %v", err)
	}
}
