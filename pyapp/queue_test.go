package pyapp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

// stall blocks the loop of an App's worker, makes calls until no more frames fit into its queue, and
// cancels them. The function that it returns lets the worker go on.
func stall(t *testing.T, app *pyapp.App) (resume func()) {
	t.Helper()
	dir := t.TempDir()
	begun, end := filepath.Join(dir, "begun"), filepath.Join(dir, "end")
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = pyapp.Call[any](ctx, app, "functions:stall", begun, end) })
	until.Holds(t, func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	padding := strings.Repeat("x", 64<<10)
	for range 200 {
		calls.Go(func() { _, _ = pyapp.Call[any](ctx, app, "functions:wait", padding) })
	}
	until.Holds(t, func() bool { return pyapp.Unsent(app) == 64 })
	cancel()
	calls.Wait()
	return func() {
		if err := os.WriteFile(end, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// TestCancellationBehindAFullQueue: a worker gets the cancellation of a call after the call.
func TestCancellationBehindAFullQueue(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	stall(t, app)()
	until.Holds(t, func() bool {
		n, err := pyapp.Call[int](t.Context(), app, "functions:count_waiting")
		if err != nil {
			t.Fatal(err)
		}
		return n == 0 && pyapp.Unsent(app) == 0
	})
}

// TestShutdownBehindAFullQueue: a worker that was busy is told to stop.
func TestShutdownBehindAFullQueue(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	resume := stall(t, app)
	ended := make(chan error)
	go func() { ended <- app.Shutdown(t.Context()) }()
	until.Holds(t, func() bool { return pyapp.Waits(app) == 1 })
	resume()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestManyConnectionsWhileTheLoopIsBlocked: more than the socket to the worker holds. All are served.
func TestManyConnectionsWhileTheLoopIsBlocked(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := make(chan error, 1)
	go func() {
		_, err := pyapp.Call[string](t.Context(), app, "protocols:block", fifo)
		blocked <- err
	}()
	gate, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits until Python has opened it
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	const many = 250 // the socket holds fewer than 100, and the queue before it 64
	for i := range many {
		client, conn := accept(t, "tcp")
		wg.Go(func() {
			if err := app.ServeConn(t.Context(), conn, "protocols:Echo"); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			text := fmt.Sprintln("text", i)
			io.WriteString(client, text)
			client.(*net.TCPConn).CloseWrite()
			if got, err := io.ReadAll(client); string(got) != text || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	until.Holds(t, func() bool { return pyapp.Unsent(app) == 64 })
	gate.Close()
	if err := <-blocked; err != nil {
		t.Error(err)
	}
	wg.Wait()
}
