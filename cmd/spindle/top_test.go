package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/loop"
)

// inspected runs tasks on a loop until the test ends, and returns the address of their
// inspector and a function that blocks the loop.
func inspected(t *testing.T) (addr string, block func() (release func())) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan *loop.Loop), make(chan error, 1)
	go func() {
		ended <- spindle.Options{Loop: loop.Options{Name: "orders", Watchdog: -1}}.Run(ctx, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for i := range 30 {
					n.GoWith(spindle.TaskOptions{Name: fmt.Sprintf("order %d", i)}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
				}
				ready <- spindle.LoopOf(ctx)
				return nil
			})
		})
	}()
	l := <-ready
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		<-ended
	})
	return s.Addr().String(), func() func() {
		done := make(chan struct{})
		if err := l.Post(func() { blockedHere(done) }); err != nil {
			t.Fatal(err)
		}
		release := sync.OnceFunc(func() { close(done) })
		t.Cleanup(release)
		return release
	}
}

//go:noinline
func blockedHere(done chan struct{}) { <-done }

// topUntil runs the command until it prints want, or for a minute: a loop that gets no CPU
// for a while does not answer in time.
func topUntil(t *testing.T, want string, args ...string) (got result) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		if got = run(t.Context(), args...); got.code != 0 || strings.Contains(got.out, want) {
			break
		}
	}
	return got
}

func TestTopOnce(t *testing.T) {
	addr, block := inspected(t)
	got := topUntil(t, "Sleep", "top", "--once", "--sort", "tree", "--tasks", "10", addr)
	if got.code != 0 || got.errs != "" {
		t.Fatalf("got %+v", got)
	}
	for _, want := range []string{"LOOP", "orders", "TASK", "\nmain ", "\n  order 3 ", "Sleep", "and 21 more"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it does not print %q:\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "\x1b") {
		t.Errorf("it prints escape sequences:\n%q", got.out)
	}
	if testing.Short() {
		return // TestTopInATerminal shows a blocked loop as well
	}
	release := block()
	defer release()
	for !strings.Contains(got.out, "blockedHere") { // until the loop counts as blocked
		if got = run(t.Context(), "top", "--once", addr); got.code != 0 {
			t.Fatalf("got %+v", got)
		}
	}
	if !strings.Contains(got.out, "blocked ") {
		t.Errorf("of a blocked loop it prints\n%s", got.out)
	}
}

func TestTopJSON(t *testing.T) {
	addr, _ := inspected(t)
	got := topUntil(t, `"order 29"`, "top", "--json", "http://"+addr+"/")
	var snapshot inspect.SnapshotAnswer
	if err := json.Unmarshal([]byte(got.out), &snapshot); err != nil || got.code != 0 || got.errs != "" {
		t.Fatalf("%v: got %+v", err, got)
	}
	if len(snapshot.Loops) == 0 || len(snapshot.Tasks) < 31 {
		t.Errorf("the snapshot has %d loops and %d tasks", len(snapshot.Loops), len(snapshot.Tasks))
	}
}

// TestTopMovesToTheInspector looks at a handler in a program that also calls inspect.Serve.
// After the first answer of the handler the command asks the server, which answers even if
// the handler does not.
func TestTopMovesToTheInspector(t *testing.T) {
	inspected(t)
	h, asked := inspect.Handler(inspect.Options{}), atomic.Int32{}
	mounted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			http.Error(w, "blocked", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer mounted.Close()
	if got := run(t.Context(), "top", "--once", mounted.Listener.Addr().String()); got.code != 0 || !strings.Contains(got.out, "orders") || asked.Load() != 1 {
		t.Errorf("after %d requests to the handler: %+v", asked.Load(), got)
	}
}

// TestTopFindsAMountedInspector looks at a program that mounts the handler beside pprof.
func TestTopFindsAMountedInspector(t *testing.T) {
	inspected(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/spindle/", inspect.Handler(inspect.Options{Token: "secret"}))
	server := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() {
		server.Close()
		<-served
	}()
	addr := ln.Addr().String()
	if got := run(t.Context(), "top", "--once", addr); got.code != 2 || !strings.Contains(got.errs, "SPINDLE_INSPECT_TOKEN") {
		t.Errorf("without the token: %+v", got)
	}
	t.Setenv("SPINDLE_INSPECT_TOKEN", "secret")
	places := []string{addr, "http://" + addr + "/debug/spindle"}
	if testing.Short() {
		places = places[:1]
	}
	for _, at := range places {
		if got := run(t.Context(), "top", "--once", at); got.code != 0 || !strings.Contains(got.out, "orders") {
			t.Errorf("%s: got %+v", at, got)
		}
	}
}
