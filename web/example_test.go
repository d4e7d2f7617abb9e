package web_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// A server beside other tasks of a loop. Its inline handler waits like any task.
func Example() {
	mux := http.NewServeMux()
	mux.HandleFunc("/worker", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "on a goroutine")
	})
	mux.Handle("/inline", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := spindle.Sleep(r.Context(), time.Millisecond); err == nil {
			fmt.Fprint(w, "in a task")
		}
	})))
	server := &web.Server{
		Handler: mux,
		Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){
			"/lean": func(c *web.LeanCtx) { c.WriteString("in a callback") },
		}),
	}
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		sv, err := server.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		for _, path := range []string{"/worker", "/inline", "/lean"} {
			body, err := spindle.Blocking(ctx, func() (string, error) { return fetch("http://" + sv.Addr().String() + path) })
			if err != nil {
				return err
			}
			fmt.Println(body)
		}
		return sv.Shutdown(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// on a goroutine
	// in a task
	// in a callback
}

// As with net/http: the server makes its own loops and runs until the context ends.
func ExampleServer_ListenAndServe() {
	ctx, cancel := context.WithCancel(context.Background())
	server := &web.Server{
		Loops: 1,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "hello")
		}),
		OnListen: func(a net.Addr) {
			go func() {
				body, err := fetch("http://" + a.String())
				fmt.Println(body, err)
				cancel()
			}()
		},
	}
	fmt.Println(server.ListenAndServe(ctx, "localhost:0"))
	// Output:
	// hello <nil>
	// <nil>
}

// An existing listener, for example one that a service manager passed. Shutdown waits for
// requests under way, and Serve returns after them.
func ExampleServer_Serve() {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // or net.FileListener(os.NewFile(3, "http"))
	if err != nil {
		log.Fatal(err)
	}
	server := &web.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "hello")
		}),
	}
	go func() {
		body, err := fetch("http://" + ln.Addr().String())
		fmt.Println(body, err)
		if err := server.Shutdown(context.Background()); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println(server.Serve(context.Background(), ln))
	// Output:
	// hello <nil>
	// http: Server closed
}

func fetch(url string) (string, error) {
	res, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}
