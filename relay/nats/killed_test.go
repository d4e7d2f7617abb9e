package nats_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

const pythonCaller = `
import asyncio, collections, json, sys
import nats
import spindle
from spindle import relay

async def main(url, seconds):
    connection = await nats.connect(url, connect_timeout=60)
    counts = collections.Counter()
    loop = asyncio.get_running_loop()
    until = loop.time() + float(seconds)

    async def client(caller, name):
        n = 0
        while loop.time() < until or not counts["replied"]:
            n += 1
            counts["calls"] += 1
            try:
                reply = await caller.call("work", f"upper {name}-{n}".encode(), timeout=0.5)
                counts["replied" if reply == f"{name}-{n}".upper().encode() else "wrong"] += 1
            except (TimeoutError, relay.NoResponder) as e:
                counts[type(e).__name__] += 1
                await asyncio.sleep(0.01)
            except relay.RemoteError as e:
                counts[e.code] += 1

    async with relay.Caller(relay.Nats(connection)) as caller:
        await asyncio.gather(*(client(caller, f"c{i}") for i in range(16)))
        counts["waiting"] = caller.stats.waiting
    await connection.close()
    print(json.dumps(counts))

spindle.run(main(*sys.argv[1:]))
`

// killTime is how long TestKilledWorkers makes calls for each pair of languages. The environment
// variable SPINDLE_NATS_KILLS changes it.
func killTime(t *testing.T) time.Duration {
	text := os.Getenv("SPINDLE_NATS_KILLS")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestKilledWorkers kills worker processes at random moments, for callers and workers in both languages. Each call
// ends once, with its own reply or a documented error.
func TestKilledWorkers(t *testing.T) {
	interpreter := python(t)
	for _, workers := range []string{"Go", "Python"} {
		for _, callers := range []string{"Go", "Python"} {
			t.Run(callers+" calls "+workers, func(t *testing.T) {
				b := start(t, broker.Options{})
				command, env := []string{interpreter, "-c", pythonWorker, b.URL()}, ""
				if workers == "Go" {
					command, env = []string{os.Args[0]}, upperVariable+"="+b.URL()
				}
				c := caller(t, connect(t, b, nats.Options{}))
				stop := sync.OnceValue(killAtRandom(func() *process { return launch(t, command, env) }))
				defer stop()
				until.Holds(t, func() bool {
					_, err := c.Call(t.Context(), "work", []byte("upper x"))
					return err == nil
				})
				var counts map[string]int
				if callers == "Go" {
					counts = callFromGo(t, c)
				} else {
					counts = callFromPython(t, interpreter, b.URL())
				}
				kills := stop()
				t.Logf("%d kills, %v", kills, counts)
				sum := 0
				for name, n := range counts {
					switch name {
					case "calls":
						continue
					case "replied", "TimeoutError", "NoResponder":
					default:
						if n > 0 {
							t.Errorf("%d calls ended with %s", n, name)
						}
					}
					sum += n
				}
				if sum != counts["calls"] || counts["replied"] == 0 {
					t.Errorf("of %d calls %d have ended, and %d have a reply", counts["calls"], sum, counts["replied"])
				}
			})
		}
	}
}

// killAtRandom keeps three workers, and kills one of them again and again. Stop ends them all.
func killAtRandom(start func() *process) (stop func() (kills int)) {
	const count = 3
	var workers [count]*process
	for i := range workers {
		workers[i] = start()
	}
	stopping, stopped := make(chan struct{}), make(chan int)
	go func() {
		kills := 0
		for {
			select {
			case <-stopping:
				for _, w := range workers {
					w.kill()
				}
				stopped <- kills
				return
			case <-time.After(rand.N(200 * time.Millisecond)):
			}
			i := rand.N(count)
			workers[i].kill()
			kills++
			workers[i] = start()
		}
	}()
	return func() int {
		close(stopping)
		return <-stopped
	}
}

// callFromGo makes calls from goroutines, and counts their ends.
func callFromGo(t *testing.T, c *relay.Caller) map[string]int {
	var mu sync.Mutex
	counts := map[string]int{}
	count := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		counts[name]++
	}
	var clients sync.WaitGroup
	var answered atomic.Bool // on a slow machine the time may be over before
	until := time.Now().Add(killTime(t))
	for i := range 16 {
		clients.Go(func() {
			for n := 0; time.Now().Before(until) || !answered.Load(); n++ {
				count("calls")
				name := fmt.Sprintf("c%d-%d", i, n)
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				reply, err := c.Call(ctx, "work", []byte("upper "+name))
				cancel()
				switch {
				case err == nil && string(reply) == strings.ToUpper(name):
					count("replied")
					answered.Store(true)
				case err == nil:
					count("wrong")
				case errors.Is(err, context.DeadlineExceeded):
					count("TimeoutError")
				case errors.Is(err, relay.ErrNoResponder):
					count("NoResponder")
				default:
					count(err.Error())
				}
			}
		})
	}
	clients.Wait()
	counts["waiting"] = c.Stats().Waiting
	return counts
}

// callFromPython does the same in Python.
func callFromPython(t *testing.T, interpreter, url string) (counts map[string]int) {
	t.Helper()
	cmd := exec.Command(interpreter, "-c", pythonCaller, url, strconv.FormatFloat(killTime(t).Seconds(), 'f', 3, 64))
	cmd.Stderr = os.Stderr
	printed, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(printed, &counts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// upperVariable has the URL for a worker process in Go.
const upperVariable = "SPINDLE_NATS_UPPER"

// serveUpper serves the subject "work" until the process is killed.
func serveUpper(url string) error {
	ctx := context.Background()
	bus, err := nats.Connect(ctx, url, nats.Options{NATS: []client.Option{patient}})
	if err != nil {
		return err
	}
	return relay.NewWorker(bus).Serve(ctx, "work", func(_ context.Context, r *relay.Request) ([]byte, error) {
		return bytes.ToUpper(bytes.TrimPrefix(r.Body, []byte("upper "))), nil
	}, relay.ServeOptions{Ready: func() { fmt.Println("ready") }})
}
