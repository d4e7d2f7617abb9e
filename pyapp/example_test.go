package pyapp_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"log/slog"
	"net"
	"net/http"

	"github.com/spindleloop/spindle/cosync"
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

// The program accepts connections, and Python speaks their protocol:
//
//	class Echo(asyncio.Protocol):
//	    def connection_made(self, transport):
//	        self.transport = transport
//
//	    def data_received(self, data):
//	        self.transport.write(data)
func ExampleApp_ServeConn() {
	serve := func(ctx context.Context) error {
		app := &pyapp.App{Dir: "service", Workers: 2}
		defer app.Close()
		ln, err := net.Listen("tcp", "127.0.0.1:9000")
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { ln.Close() })()
		for {
			conn, err := ln.Accept()
			if err != nil {
				return err
			}
			go func() {
				if err := app.ServeConn(ctx, conn, "echo:Echo"); err != nil {
					log.Print(err)
				}
			}()
		}
	}
	_ = serve
}

// Python calls it with spindle.call("price", "tea", 2), or await spindle.async_call("price", "tea", 2).
func ExampleHandle() {
	app := &pyapp.App{Dir: "service", Target: "main:app"}
	defer app.Close()
	type item struct {
		Name  string
		Count int
	}
	pyapp.Handle(app, "price", func(ctx context.Context, i item) (float64, error) {
		if i.Name != "tea" {
			return 0, fmt.Errorf("there is no %s", i.Name)
		}
		return 2.5 * float64(i.Count), nil
	})
}

// Python sends with spindle.send("events", "some event").
func ExampleReceive() {
	app := &pyapp.App{Dir: "service", Target: "main:app"}
	defer app.Close()
	events := cosync.NewInbox[string](100)
	pyapp.Receive(app, "events", events)
	print := func(ctx context.Context) error {
		for event, err := range events.All(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(event)
		}
		return nil
	}
	_ = print
}

func ExampleStream() {
	app := &pyapp.App{Dir: "service"}
	defer app.Close()
	for word, err := range pyapp.Stream[string](context.Background(), app, "text:words", "some file") {
		if err != nil {
			log.Print(err)
			break
		}
		fmt.Println(word)
	}
}

// Python iterates with: async for square in spindle.stream("squares", 10).
func ExampleHandleStream() {
	app := &pyapp.App{Dir: "service", Target: "main:app"}
	defer app.Close()
	pyapp.HandleStream(app, "squares", func(ctx context.Context, n int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i*i, nil) {
					return
				}
			}
		}
	})
}

func ExampleParseDecimal() {
	d, err := pyapp.ParseDecimal("-12.50")
	fmt.Println(d, d.Coefficient, d.Exponent, err)
	// Output: -12.50 -1250 -2 <nil>
}

func ExampleUUID() {
	fmt.Println(pyapp.UUID{0: 0x12, 15: 0x34})
	// Output: 12000000-0000-0000-0000-000000000034
}

func ExampleSet() {
	s := pyapp.Set[string]{"a": {}, "b": {}}
	fmt.Println(len(s))
	// Output: 2
}

// The error of a failed start says why.
func ExampleApp_Start_fails() {
	app := &pyapp.App{Target: "main:app", Python: "no-such-python", ErrorLog: slog.New(slog.DiscardHandler)}
	defer app.Close()
	fmt.Println(app.Start(context.Background()))
	// Output: pyapp: main:app: no-such-python: there is no such Python interpreter; set App.Python or $VIRTUAL_ENV: exec: "no-such-python": executable file not found in $PATH
}
