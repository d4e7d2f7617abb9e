// Mounted serves a Python app through package pyapp, for the benchmarks of the Python server.
//
//	mounted -python python3 -dir python/bench -addr 127.0.0.1:8000 server_apps:starlette
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/web"
)

func main() {
	python := flag.String("python", "python3", "the interpreter")
	dir := flag.String("dir", ".", "where the app is")
	addr := flag.String("addr", "127.0.0.1:8000", "where to listen")
	workers := flag.Int("workers", 1, "worker processes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app := &pyapp.App{Python: *python, Dir: *dir, Target: flag.Arg(0), Workers: *workers}
	defer app.Close()
	if err := serve(ctx, app, *addr); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		app.Close()
		os.Exit(1)
	}
}

func serve(ctx context.Context, app *pyapp.App, addr string) error {
	if err := app.Start(ctx); err != nil {
		return err
	}
	server := &web.Server{Handler: app}
	return server.ListenAndServe(ctx, addr)
}
