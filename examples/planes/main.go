// Command planes is a web server with two planes. The web plane is a loop that answers
// requests. The execution plane is handlers in Go that block, and worker processes in Python, which
// need the package of the directory python: pip install ./python.
//
//	go run ./examples/planes
//	curl -d 'hello there' http://127.0.0.1:8080/count      (a Python process)
//	curl -d 500 http://127.0.0.1:8080/wait                 (a goroutine that blocks)
//	curl http://127.0.0.1:8080/health                      (at once, whatever the others do)
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/relay/process"
	"github.com/spindleloop/spindle/web"
)

//go:embed worker.py
var worker string

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "`ADDRESS` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "planes:", err)
		os.Exit(1)
	}
}

// run runs both planes until ctx ends.
func run(ctx context.Context, addr string, out io.Writer) error {
	bus := relay.NewLocal(relay.LocalOptions{}) // or nats.Connect, for workers on other machines
	return spindle.Run(ctx, func(ctx context.Context) error {
		// The workers are shielded, because requests need them until the server has drained.
		return spindle.Shield(ctx, func(work context.Context) error {
			return spindle.WithNursery(work, func(work context.Context, n *spindle.Nursery) error {
				defer n.Scope().Cancel(nil)
				n.Go(func(ctx context.Context) error {
					return relay.NewWorker(bus).Serve(ctx, "wait", wait, relay.ServeOptions{Concurrency: 8})
				})
				n.Go(func(ctx context.Context) error {
					return process.Serve(ctx, bus, "count", process.Options{
						Command: []string{python(), "-c", worker}, Stderr: os.Stderr, Processes: 2,
						MaxMemory: 1 << 30, MaxTime: 10 * time.Second,
					})
				})
				return serve(ctx, bus, addr, out)
			})
		})
	})
}

// python returns the interpreter of the workers.
func python() string {
	if path := os.Getenv("SPINDLE_PYTHON"); path != "" {
		return path
	}
	return "python3"
}

// serve is the web plane. When a client leaves, its call is cancelled, and its handler with it.
func serve(ctx context.Context, bus relay.Bus, addr string, out io.Writer) error {
	c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{FailWhenFull: true})
	if err != nil {
		return err
	}
	defer c.Close()
	mux := http.NewServeMux()
	for _, subject := range []string{"count", "wait"} {
		mux.Handle("/"+subject, web.Inline(gateway.New(c, gateway.Route{Subject: subject, Timeout: 20 * time.Second})))
	}
	mux.Handle("/health", web.Inline(gateway.Ready(bus)))
	sv, err := (&web.Server{Handler: mux}).Listen(spindle.LoopOf(ctx), "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", sv.Addr())
	ended := spindle.Sleep(ctx, math.MaxInt64)
	return errors.Join(ended, spindle.Grace(ctx, 4*time.Second, sv.Shutdown))
}

// wait blocks its goroutine for as many milliseconds as the request says.
func wait(ctx context.Context, r *relay.Request) ([]byte, error) {
	ms, err := strconv.Atoi(string(r.Body))
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return []byte("waited\n"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
