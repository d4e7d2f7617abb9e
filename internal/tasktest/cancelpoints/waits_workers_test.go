package cancelpoints_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/supervise"
)

// processing is a call that serves a subject with worker processes.
func processing(o process.Options) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		return process.Serve(ctx, relay.NewLocal(relay.LocalOptions{}), "test", o)
	}
}

// mounting prepares an App with an interpreter. If it serves, the App has started.
func mounting(python func() string, serves bool, call func(ctx context.Context, n *spindle.Nursery, app *pyapp.App) error) prepareFunc {
	return func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		app := &pyapp.App{Python: python(), Dir: "testdata", DrainTimeout: time.Millisecond, StartTimeout: time.Hour, ErrorLog: slog.New(slog.DiscardHandler)}
		after(func() { _ = spindle.Grace(ctx, time.Millisecond, app.Shutdown) })
		if serves {
			if err := app.Start(ctx); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context) error { return call(ctx, n, app) }, nil
	}
}

// silentPython is an interpreter. Its workers never get ready.
func silentPython() string { return "testdata/silent-python" }

// realPython is the interpreter of rows that need one.
func realPython() string { return os.Getenv("SPINDLE_PYTHON") }

// callForever calls a Python function that does not return.
func callForever(ctx context.Context, _ *spindle.Nursery, app *pyapp.App) error {
	_, err := pyapp.Call[int](ctx, app, "functions:forever")
	return err
}

// streamForever reads from a Python generator that yields nothing.
func streamForever(ctx context.Context, _ *spindle.Nursery, app *pyapp.App) error {
	for _, err := range pyapp.Stream[int](ctx, app, "functions:nothing") {
		return err
	}
	return nil
}

// serveForever serves a connection with a protocol that does nothing, and a client that does not leave.
func serveForever(ctx context.Context, _ *spindle.Nursery, app *pyapp.App) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		return err
	}
	return app.ServeConn(ctx, conn, "functions:Silent")
}

// workerWaits are the waits of packages relay/process, pyapp, supervise and sim.
var workerWaits = []wait{
	{name: "relay/process.Serve", ends: true, prepare: ready(processing(process.Options{Command: []string{"cat"}}))},
	{name: "relay/process.Serve, a worker that does not connect", prepare: ready(processing(process.Options{Command: []string{"sleep", "1000"}, Socket: true}))},
	{name: "pyapp.App.Start", prepare: mounting(silentPython, false, func(ctx context.Context, _ *spindle.Nursery, app *pyapp.App) error { return app.Start(ctx) })},
	{name: "pyapp.Call, no worker is ready", prepare: mounting(silentPython, false, callForever)},
	{name: "pyapp.Call", python: true, prepare: mounting(realPython, true, callForever)},
	{name: "pyapp.Stream, no worker is ready", prepare: mounting(silentPython, false, streamForever)},
	{name: "pyapp.Stream", python: true, prepare: mounting(realPython, true, streamForever)},
	{name: "pyapp.App.ServeConn, no worker is ready", prepare: mounting(silentPython, false, serveForever)},
	{name: "pyapp.App.ServeConn", python: true, prepare: mounting(realPython, true, serveForever)},
	{name: "pyapp.App.Restart", python: true, prepare: mounting(realPython, true, func(ctx context.Context, _ *spindle.Nursery, app *pyapp.App) error {
		return app.Restart(ctx)
	})},
	{name: "pyapp.App.Shutdown", python: true, prepare: mounting(realPython, true, func(ctx context.Context, n *spindle.Nursery, app *pyapp.App) error {
		n.GoWith(spindle.TaskOptions{Eager: true}, func(ctx context.Context) error {
			callForever(ctx, n, app) // ended by Shutdown
			return nil
		})
		return app.Shutdown(ctx)
	})},
	{name: "supervise.Run", prepare: ready(func(ctx context.Context) error {
		return supervise.Run(ctx, supervise.Options{}, supervise.Child{Name: "forever", Run: func(ctx context.Context) error {
			return spindle.Sleep(ctx, time.Hour)
		}})
	})},
	{name: "sim.WaitAllBlocked", simulated: true, ends: true, prepare: ready(sim.WaitAllBlocked)},
}
