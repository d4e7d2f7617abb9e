// Command fastapi is a Go server with a FastAPI app under /api, and a page that calls a Python
// function. Python runs in two worker processes.
//
//	pip install ./python fastapi
//	go run ./examples/fastapi
//	curl 127.0.0.1:8080/api/items/3
//	curl 127.0.0.1:8080/words?text=so+it+goes+so+it+goes
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/web"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "`ADDRESS` to listen on")
	dir := flag.String("dir", "examples/fastapi", "`DIRECTORY` of the Python code")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	app := &pyapp.App{Dir: *dir, Target: "main:app", Workers: 2}
	if err := run(ctx, *addr, app, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "fastapi:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Then requests are finished, and the workers end.
func run(ctx context.Context, addr string, app *pyapp.App, out io.Writer) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		if err := app.Start(ctx); err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("/api/", http.StripPrefix("/api", app))
		mux.Handle("/words", words(app))
		sv, err := (&web.Server{Handler: mux}).Listen(spindle.LoopOf(ctx), "tcp", addr)
		if err != nil {
			return errors.Join(err, app.Shutdown(ctx))
		}
		fmt.Fprintln(out, "listening on", sv.Addr())
		ended := spindle.Sleep(ctx, math.MaxInt64)
		return errors.Join(ended, spindle.Grace(ctx, 4*time.Second, sv.Shutdown), spindle.Grace(ctx, 4*time.Second, app.Shutdown))
	})
}

// words answers with the words of a text and how often each occurs.
func words(app *pyapp.App) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		counts, err := pyapp.Call[map[string]int](r.Context(), app, "text:count_words", r.FormValue("text"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(counts)
	}
}
