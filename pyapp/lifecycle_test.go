package pyapp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/web"
)

// withJournal returns an App that writes a journal, and a function that reads it.
func withJournal(t *testing.T, app *pyapp.App) (*pyapp.App, func() string) {
	file := filepath.Join(t.TempDir(), "journal")
	app.Env = append(os.Environ(), "JOURNAL="+file)
	return prepare(t, app), func() string {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		return string(text)
	}
}

func TestLazyAndEagerStart(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app", Workers: 2})
	if pids := pyapp.Pids(app); len(pids) != 0 {
		t.Error("workers before the first request:", pids)
	}
	if code, _ := get(t, serve(t, app)+"/pid"); code != 200 || len(pyapp.Pids(app)) == 0 {
		t.Error(code, pyapp.Pids(app))
	}
	eager := prepare(t, &pyapp.App{Target: "raw:app", Workers: 2})
	for range 2 { // the second does nothing
		if err := eager.Start(t.Context()); err != nil || len(pyapp.Pids(eager)) != 2 {
			t.Error(err, pyapp.Pids(eager))
		}
	}
	for _, pid := range pyapp.Pids(eager) {
		if !proctest.Alive(pid) {
			t.Error(pid, "does not run")
		}
	}
	unused := &pyapp.App{Target: "raw:app"}
	if err := unused.Close(); err != nil {
		t.Error(err)
	}
	if err := unused.Start(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestDrain: a request that runs at Shutdown finishes, others get 503, and the lifespan ends.
func TestDrain(t *testing.T) {
	app, journal := withJournal(t, &pyapp.App{Target: "raw:app"})
	url := serve(t, app)
	answers := make(chan string)
	go func() {
		_, text := get(t, url+"/slow")
		answers <- text
	}()
	wait(t, app, "begun")
	ended := make(chan error)
	waiting := make(chan error)
	go func() {
		_, err := pyapp.Call[string](t.Context(), app, "raw:wait", "go on")
		waiting <- err
	}()
	until.Holds(t, func() bool { return pyapp.Active(app) == 2 })
	go func() { ended <- app.Shutdown(t.Context()) }()
	until.Holds(t, func() bool {
		code, _ := get(t, url+"/pid")
		return code == http.StatusServiceUnavailable
	})
	if _, err := pyapp.Call[int](t.Context(), app, "math:sqrt", 4); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	pyapp.CallDuringDrain(t.Context(), app, "raw:happen", "go on")
	if text := <-answers; text != "finished" {
		t.Error(text)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := journal(); text != "shutdown\n" {
		t.Errorf("%q", text)
	}
	if len(pyapp.Pids(app)) != 0 {
		t.Error("workers are left")
	}
}

// TestDrainThatTakesTooLong: requests are cancelled, and the lifespan ends.
func TestDrainThatTakesTooLong(t *testing.T) {
	app, journal := withJournal(t, &pyapp.App{Target: "raw:app"})
	url := serve(t, app)
	codes := make(chan int)
	go func() {
		code, _ := get(t, url+"/slow")
		codes <- code
	}()
	wait(t, app, "begun")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := app.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if code := <-codes; code != 500 && code != 502 {
		t.Error(code)
	}
	if text := journal(); text != "cancelled\nshutdown\n" {
		t.Errorf("%q", text)
	}
}

// TestShutdownClosesWebSockets, and does not wait for their clients.
func TestShutdownClosesWebSockets(t *testing.T) {
	app, journal := withJournal(t, &pyapp.App{Target: "raw:app"})
	c, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(serve(t, app), "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wait(t, app, "/ws")
	read := make(chan error)
	go func() {
		_, _, err := c.ReadMessage()
		read <- err
	}()
	if err := app.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-read; !websocket.IsCloseError(err, websocket.CloseServiceRestart, websocket.CloseGoingAway) {
		t.Error(err)
	}
	if text := journal(); text != "websocket.disconnect\nshutdown\n" {
		t.Errorf("%q", text)
	}
}

// TestServerShutdownClosesWebSockets: a server that ends before its app, which is the order of
// the guide, closes WebSockets in order too.
func TestServerShutdownClosesWebSockets(t *testing.T) {
	for _, place := range []string{"in a task", "on loops of its own"} {
		t.Run(place, func(t *testing.T) {
			app, journal := withJournal(t, &pyapp.App{Target: "raw:app"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			listening, served := make(chan net.Addr, 1), make(chan error, 1)
			server := &web.Server{Handler: app, DrainTimeout: limit, OnListen: func(a net.Addr) { listening <- a }}
			serve := func(ctx context.Context) error { return server.ListenAndServe(ctx, "127.0.0.1:0") }
			go func() {
				if place == "in a task" {
					served <- spindle.Run(ctx, serve)
				} else {
					served <- serve(ctx)
				}
			}()
			c, _, err := websocket.DefaultDialer.Dial("ws://"+(<-listening).String()+"/ws", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			wait(t, app, "/ws")
			cancel()
			if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
				t.Error(err)
			}
			if err := <-served; err != nil && err != context.Canceled {
				t.Error(err)
			}
			if err := app.Close(); err != nil {
				t.Error(err)
			}
			if text := journal(); text != "websocket.disconnect\nshutdown\n" {
				t.Errorf("%q", text)
			}
		})
	}
}

// TestRestartUnderLoad loses no request.
func TestRestartUnderLoad(t *testing.T) {
	app, journal := withJournal(t, &pyapp.App{Target: "raw:app", Workers: 2})
	if err := app.Restart(t.Context()); err != nil { // does nothing
		t.Error(err)
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := serve(t, app)
	before := pyapp.Pids(app)
	var stop atomic.Bool
	var served atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		c := client(t)
		wg.Go(func() {
			for !stop.Load() {
				res, err := c.Get(url + "/pid")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
					t.Error(res.Status, err)
				}
				res.Body.Close()
				served.Add(1)
			}
		})
	}
	for range 2 {
		n := served.Load()
		until.Holds(t, func() bool { return served.Load() > n+50 })
		if err := app.Restart(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, pid := range before {
		until.Holds(t, func() bool { return !proctest.Alive(pid) })
	}
	stop.Store(true)
	wg.Wait()
	if err := app.Close(); err != nil {
		t.Error(err)
	}
	if text := journal(); text != strings.Repeat("shutdown\n", 6) {
		t.Errorf("%q", text)
	}
	if err := app.Restart(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestShutdownDuringAStart: a worker that starts while Shutdown waits for another one is ended.
func TestShutdownDuringAStart(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pyapp.StartWhileClosing(app); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestShutdownAtAnyTime closes Apps while their workers start.
func TestShutdownAtAnyTime(t *testing.T) {
	for i := range 8 {
		app := prepare(t, &pyapp.App{Target: "raw:app", Workers: 2})
		started := make(chan error)
		go func() { started <- app.Start(t.Context()) }()
		if i > 0 {
			until.Holds(t, func() bool { return pyapp.Supervised(app) })
		}
		if err := app.Close(); err != nil {
			t.Error(err)
		}
		if err := <-started; err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}
}

func TestLifecycleInATask(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if err := app.Start(ctx); err != nil {
			return err
		}
		if err := app.Restart(ctx); err != nil {
			return err
		}
		return app.Shutdown(ctx)
	})
	if err != nil {
		t.Error(err)
	}
}
