package sim_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/web"
)

// clientInPython asks a server in Go, by asyncio's streams.
const clientInPython = `
import asyncio, random, time

async def ask(path):
    reader, writer = await asyncio.open_connection("server", 80)
    writer.write(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer

async def client():
    assert time.time() < 1e9, "the time is the world's"
    await asyncio.sleep(random.random())
    for number in range(5):
        answer = await ask(f"/{number}")
        assert answer.endswith(b"hello /%d" % number), answer
        await asyncio.sleep(1)

async def patient():
    for number in range(5):
        while True:
            try:
                async with asyncio.timeout(1):
                    await ask("/")
                break
            except OSError:
                await asyncio.sleep(0.1)
        await asyncio.sleep(1)

async def wrong():
    assert b"200 OK" not in await ask("/"), "what was not expected"

async def server():
    async def hello(reader, writer):
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npython")
        writer.close()
    async with await asyncio.start_server(hello, port=81) as listener:
        await listener.serve_forever()
`

// python returns a program of the file above. The test is skipped without a Python that has the
// package.
func python(t *testing.T, function string) sim.Python {
	interpreter := os.Getenv("SPINDLE_PYTHON")
	if interpreter == "" {
		t.Skip("set SPINDLE_PYTHON to a Python that has the package spindle")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "programs.py"), []byte(clientInPython), 0o644); err != nil {
		t.Fatal(err)
	}
	return sim.Python{Function: "programs:" + function, Dir: dir, Interpreter: interpreter}
}

// serveHello serves HTTP in Go.
func serveHello(ctx context.Context) error {
	server := &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello "+r.URL.Path)
	}))}
	running, err := server.Listen(spindle.LoopOf(ctx), "tcp", ":80")
	if err != nil {
		return err
	}
	ended := spindle.Sleep(ctx, math.MaxInt64)
	running.Close()
	return ended
}

// TestGoAndPython: a server in Go and clients in Python in one world. A seed is one run.
func TestGoAndPython(t *testing.T) {
	client := python(t, "client")
	run := func(seed uint64) *sim.World {
		w := sim.NewWorld(seed)
		w.Host("server").Serve(serveHello)
		for _, name := range []string{"anna", "ben"} {
			w.Host(name).Python(client)
		}
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := run(1)
	if first.Now() < 5*time.Second || !strings.Contains(first.Trace().String(), "hello /4") {
		t.Errorf("after %v:\n%s", first.Now(), first.Trace())
	}
	if again := run(1); again.Hash() != first.Hash() {
		t.Error("two runs of a seed differ")
	}
	if other := run(2); other.Hash() == first.Hash() {
		t.Error("two seeds have the same run")
	}
}

// TestPythonWithFaults: programs in Python see the crash of a server in Go, and a crash ends their
// process.
func TestPythonWithFaults(t *testing.T) {
	w := sim.NewWorld(3)
	server, client := w.Host("server"), w.Host("client")
	server.Serve(serveHello)
	client.Python(python(t, "patient"))
	w.After(1500*time.Millisecond, server.Restart)
	w.After(2500*time.Millisecond, client.Restart)
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if w.Now() < 7*time.Second {
		t.Errorf("the client has not begun again: %v", w.Now())
	}
}

func TestPythonFails(t *testing.T) {
	w := sim.NewWorld(4)
	w.Host("server").Serve(serveHello)
	w.Host("client").Python(python(t, "wrong"))
	err := w.Run()
	if err == nil || !strings.HasPrefix(err.Error(), "host client: ") || !strings.Contains(err.Error(), "AssertionError: what was not expected") {
		t.Error(err)
	}
}

// TestServerInPython: a client in Go asks a server in Python.
func TestServerInPython(t *testing.T) {
	server := python(t, "server")
	server.Serve = true
	w := sim.NewWorld(5)
	w.Host("server").Python(server)
	w.Host("client").Go(func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Second); err != nil { // until it listens
			return err
		}
		request, err := http.NewRequestWithContext(ctx, "GET", "http://server:81/", nil)
		if err != nil {
			return err
		}
		answer, err := (&http.Client{Transport: &web.Transport{}}).Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if string(text) != "python" {
			return errors.Join(err, errors.New(string(text)))
		}
		return nil
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
