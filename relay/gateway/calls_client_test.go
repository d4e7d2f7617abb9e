package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle/internal/browsertest"
	"github.com/spindleloop/spindle/internal/snippets"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
)

// guideClient returns the client that the guide shows.
func guideClient(t *testing.T) string {
	t.Helper()
	const page = "../../docs/guide/relay-calls.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range snippets.Blocks(t, page, string(text)) {
		if b.Kind == "javascript" {
			return b.Text
		}
	}
	t.Fatal("the guide shows no client")
	return ""
}

// exercise uses the client of the guide: its function returns what it has seen.
const exercise = `
export async function exercise(url, Socket) {
  const seen = [];
  const say = (...all) => seen.push(all.join(' '));
  const attempt = (promise) => promise.catch((e) => e instanceof CallError ? e.status + ' ' + e.message : e.name + ': ' + e.message);
  const calls = new Calls(url, Socket);

  // More calls than the server allows at a time: the client waits, and each gets its own reply.
  const many = await Promise.all(Array.from({ length: 100 }, (_, i) => calls.call('call ' + i)));
  say('many', many.every((reply, i) => reply === 'call ' + i));
  say('text', await calls.call('<κόσμε> 😀'));
  const bytes = await calls.call(new Uint8Array([255, 0, 254]));
  say('bytes', bytes instanceof Uint8Array, bytes);

  // A call that fails leaves the others alone.
  const slow = calls.call('slow');
  say('failed', await attempt(calls.call('fail')));
  say('slow', await slow);

  const items = [];
  for await (const item of calls.stream('items', { window: 2 })) items.push(item);
  say('items', items);

  // To leave a stream cancels it, and so does a signal.
  for await (const item of calls.stream('endless', { window: 4 })) if (item === '50') break;
  say('aborted', await attempt(calls.call('wait', { signal: AbortSignal.timeout(20) })));
  say('idle', await calls.call('idle'));

  const left = attempt(calls.call('wait'));
  await calls.call('and another');
  calls.close();
  say('closed', await left);
  say('after', await attempt(calls.call('late')));
  return seen.join('\n');
}
`

const exerciseSees = `many true
text <κόσμε> 😀
bytes true 255,0,254
failed 500 failed
slow slow
items one,two
lines,three
aborted TimeoutError: The operation was aborted due to timeout
idle true
closed Error: the connection has ended: 1000 
after Error: the connection has ended: 1000 `

// exercisePlane serves the client, and what it calls, until fn returns.
func exercisePlane(t *testing.T, fn func(ctx context.Context, url string) error) {
	bus := relay.NewLocal(relay.LocalOptions{})
	var w *relay.Worker
	w, _ = serve(t, bus, "work", relay.ServeOptions{Concurrency: 8}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "endless":
			for i := range 1 << 30 {
				if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
					return nil, err
				}
			}
		case "slow":
			timer := time.NewTimer(50 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		case "idle": // all that were cancelled have ended; this one runs
			for w.Stats().Running > 1 {
				if ctx.Err() != nil {
					return []byte("false"), nil
				}
				runtime.Gosched()
			}
			return []byte("true"), nil
		}
		return work(nil)(ctx, r)
	})
	module := guideClient(t) + exercise
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/work", web.Inline(gateway.New(c, gateway.Route{Subject: "work", Timeout: time.Minute, MaxCalls: 4})))
		mux.HandleFunc("/calls.mjs", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			w.Write([]byte(module))
		})
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte(`<!doctype html><meta charset="utf-8"><title>calls</title><link rel="icon" href="data:,"><script type="module">
				import { exercise } from './calls.mjs';
				window.seen = await exercise('ws://' + location.host + '/work').catch((e) => String(e));
			</script>`))
		})
		return mux
	}, fn)
}

// TestGuideClientInABrowser runs the client of the guide in Chromium.
func TestGuideClientInABrowser(t *testing.T) {
	browser := browsertest.Start(t)
	exercisePlane(t, func(ctx context.Context, url string) error {
		return onGoroutine(ctx, func() {
			var seen string
			browsertest.Look(t, browser, chromedp.Navigate(url), browsertest.Until("window.seen !== undefined"), chromedp.Evaluate("window.seen", &seen))
			if want := strings.ReplaceAll(exerciseSees, "The operation was aborted due to timeout", "signal timed out"); seen != want {
				t.Errorf("it has seen:\n%s\nwant:\n%s", seen, want)
			}
		})
	})
}

// TestGuideClientInNode runs the client of the guide with Node's module ws.
func TestGuideClientInNode(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: starting Node takes a second")
	}
	nodePath := "NODE_PATH=" + os.Getenv("NODE_PATH") + ":/usr/share/nodejs"
	check := exec.Command("node", "-e", "require('ws')")
	check.Env = append(os.Environ(), nodePath)
	if out, err := check.CombinedOutput(); err != nil {
		t.Skipf("Node with its module ws is not installed (apt-get install nodejs node-ws): %v %.200s", err, out)
	}
	program := filepath.Join(t.TempDir(), "main.mjs")
	main := guideClient(t) + exercise + `
import { createRequire } from 'node:module';
const WebSocket = createRequire(import.meta.url)('ws');
process.stdout.write(await exercise(process.argv[2], WebSocket));
`
	if err := os.WriteFile(program, []byte(main), 0o644); err != nil {
		t.Fatal(err)
	}
	exercisePlane(t, func(ctx context.Context, url string) error {
		return onGoroutine(ctx, func() {
			limited, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			node := exec.CommandContext(limited, "node", program, "ws"+strings.TrimPrefix(url, "http")+"/work")
			node.Env = append(os.Environ(), nodePath)
			var problems bytes.Buffer
			node.Stderr = &problems
			seen, err := node.Output()
			if err != nil || string(seen) != exerciseSees {
				t.Errorf("%v %s\nit has seen:\n%s\nwant:\n%s", err, &problems, seen, exerciseSees)
			}
		})
	})
}

// onGoroutine runs fn beside the loop.
func onGoroutine(ctx context.Context, fn func()) error {
	var ended atomic.Bool
	go func() {
		defer ended.Store(true) // fn may end its goroutine
		fn()
	}()
	return until(ctx, ended.Load)
}
