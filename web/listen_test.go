package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

func TestUnixSocket(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "unix") })}
	sv, err := s.Listen(l, "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	if _, body := get(t, c, "http://unix/"); body != "unix" {
		t.Errorf("got %q", body)
	}
	c.CloseIdleConnections()
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	l.Stop()
	<-ended
	l.Close()
}

// TestTakenPortIsAnError covers servers that share their port among loops.
func TestTakenPortIsAnError(t *testing.T) {
	for _, loops := range []int{1, 2} {
		listens := make(chan net.Addr, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			s := &web.Server{Loops: loops, OnListen: func(a net.Addr) { listens <- a }}
			ended <- s.ListenAndServe(ctx, "127.0.0.1:0")
		}()
		taken := (<-listens).String()
		for _, ours := range []int{1, 2} {
			second, end := context.WithCancel(t.Context())
			s := &web.Server{Loops: ours, OnListen: func(net.Addr) { end() }}
			if err := s.ListenAndServe(second, taken); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%d loops beside a server with %d: %v", ours, loops, err)
			}
			end()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestListenAndServeUntilTheContextEnds(t *testing.T) {
	var order []string
	s := &web.Server{
		Loops:      2,
		Handler:    http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }),
		OnStart:    func(context.Context) error { order = append(order, "start"); return nil },
		OnShutdown: func(context.Context) error { order = append(order, "shutdown"); return nil },
	}
	listens := make(chan net.Addr, 1)
	s.OnListen = func(a net.Addr) {
		order = append(order, "listen")
		listens <- a
	}
	const address = "localhost:0" // names are looked up
	for name, run := range map[string]func(context.Context) error{
		"alone": func(ctx context.Context) error { return s.ListenAndServe(ctx, address) },
		"beside tasks": func(ctx context.Context) error {
			return spindle.Run(ctx, func(ctx context.Context) error { return s.ListenAndServe(ctx, address) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			order = nil
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx) }()
			if _, body := get(t, client(t), "http://"+(<-listens).String()); body != "ok" {
				t.Errorf("got %q", body)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("got %v", err)
			}
			if fmt.Sprint(order) != "[start listen shutdown]" {
				t.Errorf("order %v", order)
			}
		})
	}
}

func TestListenErrorsAreTold(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := (&web.Server{}).ListenAndServe(t.Context(), ln.Addr().String()); err == nil {
		t.Error("listening on a port in use succeeded")
	}
	no := errors.New("no")
	s := &web.Server{OnStart: func(context.Context) error { return no }}
	if err := s.ListenAndServe(t.Context(), "127.0.0.1:0"); !errors.Is(err, no) {
		t.Errorf("OnStart: %v", err)
	}
}

// TestGroupServesOnAllLoops uses every kind of handler.
func TestGroupServesOnAllLoops(t *testing.T) {
	g, err := loop.NewGroup(3, loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/worker", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "worker") })
	mux.Handle("/inline", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "inline") })))
	s := &web.Server{Handler: mux, Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("lean") }})}
	sv, err := s.ListenGroup(g, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(context.Background()) }()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c := client(t)
			defer c.CloseIdleConnections()
			for range 5 {
				for _, kind := range []string{"worker", "inline", "lean"} {
					res, err := c.Get(url(sv, "/"+kind))
					if err != nil {
						t.Error(err)
						return
					}
					if body, _ := io.ReadAll(res.Body); string(body) != kind {
						t.Errorf("got %q", body)
					}
					res.Body.Close()
				}
			}
		})
	}
	all.Wait()
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	g.Stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// TestListenWithoutALoopPanics checks that the message says what is missing.
func TestListenWithoutALoopPanics(t *testing.T) {
	for want, listen := range map[string]func(){
		"web: Server.Listen with a nil loop":       func() { new(web.Server).Listen(nil, "tcp", "127.0.0.1:0") },
		"web: Server.ListenGroup with a nil group": func() { new(web.Server).ListenGroup(nil, "tcp", "127.0.0.1:0") },
	} {
		func() {
			defer func() {
				if v := recover(); v != want {
					t.Errorf("panic with %v, want %q", v, want)
				}
			}()
			listen()
		}()
	}
}
