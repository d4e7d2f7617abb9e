package pyapp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/web"
)

// A FastAPI app under /api of a Go server.
func Example() {
	app := &pyapp.App{Dir: "service", Target: "main:app", Workers: 2}
	defer app.Close()
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", app))
	mux.Handle("/", http.FileServer(http.Dir("static")))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}

// A server of package web. The workers are ready before the first request, and finish the
// last one.
func ExampleApp_Start() {
	serve := func(ctx context.Context) error {
		app := &pyapp.App{Dir: "service", Target: "main:app"}
		if err := app.Start(ctx); err != nil {
			return err
		}
		defer app.Close()
		server := &web.Server{Handler: app}
		return server.ListenAndServe(ctx, "127.0.0.1:8080")
	}
	_ = serve
}

func ExampleCall() {
	app := &pyapp.App{Dir: "service"} // no Target: only calls
	defer app.Close()
	type Match struct {
		Word string
		Rate float64
	}
	matches, err := pyapp.Call[[]Match](context.Background(), app, "search:find", "gopher", pyapp.Named{"limit": 3})
	if raised := (*pyapp.Error)(nil); errors.As(err, &raised) {
		log.Print(raised.Traceback)
	}
	fmt.Println(matches, err)
}

// The reason of a failed start can be asked for.
func ExampleStartError() {
	app := &pyapp.App{Target: "main:app", Python: "no-such-python", ErrorLog: slog.New(slog.DiscardHandler)}
	defer app.Close()
	err := app.Start(context.Background())
	fmt.Println(errors.Is(err, pyapp.ErrNoPython))
	// Output: true
}
