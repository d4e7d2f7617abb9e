package pyapp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

// killTime is how long TestKilledWorkers goes on after its first kills. The environment variable
// SPINDLE_KILLS sets it.
func killTime(t *testing.T) time.Duration {
	text := os.Getenv("SPINDLE_KILLS")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestKilledWorkers kills workers at random moments, while Go calls Python, Python calls Go, and streams and
// connections run. Each of them ends once, with its own result or as a crash, and nothing is left.
func TestKilledWorkers(t *testing.T) {
	const workers = 3
	app := prepare(t, &pyapp.App{Workers: workers})
	var begun, ended atomic.Int64 // functions of Go
	pyapp.Handle(app, "add", func(ctx context.Context, pair struct{ A, B int }) (int, error) {
		begun.Add(1)
		defer ended.Add(1)
		return pair.A + pair.B, nil
	})
	pyapp.Handle(app, "down", func(ctx context.Context, n int) (int, error) {
		begun.Add(1)
		defer ended.Add(1)
		return pyapp.Call[int](ctx, app, "back:down", n-1)
	})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	kinds := []func(n int) error{
		func(n int) error { return sum(t, app, n, "functions:add", n, 1) },
		func(n int) error { return sum(t, app, n, "back:call", "add", n, 1) },
		func(n int) error { return sum(t, app, n, "back:async_call", "add", n, 1) },
		func(n int) error { return sum(t, app, -1, "back:down", 3) },
		func(n int) error { return streamed(t, app) },
		func(n int) error { return echoed(t, app, n) },
	}
	var replied, crashed, all atomic.Int64
	var stop atomic.Bool
	var clients sync.WaitGroup
	for _, kind := range kinds {
		for range 3 {
			clients.Go(func() {
				for n := 0; !stop.Load(); n++ {
					all.Add(1)
					switch err := kind(n); {
					case err == nil:
						replied.Add(1)
					case isCrash(err):
						crashed.Add(1)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
	}
	kills, end := 0, time.Now().Add(killTime(t))
	for kills < 3 || time.Now().Before(end) && !t.Failed() {
		before := replied.Load()
		if killTime(t) > 0 {
			before += rand.N[int64](50) // so that moments differ
		}
		until.Holds(t, func() bool { return t.Failed() || replied.Load() > before })
		if pids := pyapp.Pids(app); len(pids) > 0 {
			if proctest.KillChild(pids[rand.N(len(pids))]) {
				kills++
			}
		}
	}
	stop.Store(true)
	clients.Wait()
	until.Holds(t, func() bool { return begun.Load() == ended.Load() && pyapp.Active(app) == 0 })
	t.Logf("%d kills; of %d calls %d have a result and %d have crashed; Go was called %d times",
		kills, all.Load(), replied.Load(), crashed.Load(), begun.Load())
	if all.Load() != replied.Load()+crashed.Load() && !t.Failed() {
		t.Error("not all calls have ended")
	}
}

// isCrash reports whether a call has failed because of a worker that was killed: its own, or one of a call within it.
func isCrash(err error) bool {
	failed := (*pyapp.Error)(nil)
	return errors.Is(err, pyapp.ErrCrashed) ||
		errors.As(err, &failed) && strings.HasSuffix(failed.Type, "GoError") && strings.Contains(failed.Message, pyapp.ErrCrashed.Error())
}

// sum calls a function that returns n+1.
func sum(t *testing.T, app *pyapp.App, n int, target string, args ...any) error {
	got, err := pyapp.Call[int](t.Context(), app, target, args...)
	if err == nil && got != n+1 {
		err = fmt.Errorf("%s: %d, not %d", target, got, n+1)
	}
	return err
}

// streamed reads a stream to its end.
func streamed(t *testing.T, app *pyapp.App) error {
	want := 0
	for got, err := range pyapp.Stream[int](t.Context(), app, "back:count", 1000) {
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("item %d is %d", want, got)
		}
		want++
	}
	if want != 1000 {
		return fmt.Errorf("%d items", want)
	}
	return nil
}

// echoed serves a connection and gets its bytes back.
func echoed(t *testing.T, app *pyapp.App, n int) error {
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
	served := serveConn(t, t.Context(), app, conn, "protocols:Echo")
	text := fmt.Sprint("text ", n)
	_, wrote := io.WriteString(client, text)
	_ = client.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(client) // ends in any case
	if crash := <-served; crash != nil {
		return crash
	}
	if wrote != nil || err != nil || string(got) != text {
		return fmt.Errorf("%q came back, %w", got, errors.Join(wrote, err))
	}
	return nil
}
