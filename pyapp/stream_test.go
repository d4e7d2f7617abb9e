package pyapp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle/pyapp"
)

// TestStreamingBothWays: each piece of the body comes back before the next one is sent.
func TestStreamingBothWays(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			req, _ := http.NewRequest("POST", start(t, app)+"/echo", r)
			piece := func(i int) string { return fmt.Sprintf("piece %d\n", i) }
			go io.WriteString(w, piece(0)) // the client sends the head with it
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i := range 20 {
				piece := piece(i)
				if i > 0 {
					if _, err := io.WriteString(w, piece); err != nil {
						t.Fatal(err)
					}
				}
				got := make([]byte, len(piece))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != piece {
					t.Fatalf("%q, %v", got, err)
				}
			}
			w.Close()
			if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

// TestEventsAreFlushed: the app sends an event, and waits until it was read.
func TestEventsAreFlushed(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			app := prepare(t, &pyapp.App{Target: "raw:app"})
			res, err := client(t).Get(start(t, app) + "/feed")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			lines := bufio.NewReader(res.Body)
			for i := range 3 {
				if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("%q, %v", line, err)
				}
				lines.ReadString('\n')
				happen(t, app, fmt.Sprint("feed ", i))
			}
			if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

// happen sets an event of the module raw, and wait waits for one.
func happen(t *testing.T, app *pyapp.App, event string) {
	t.Helper()
	if _, err := pyapp.Call[any](t.Context(), app, "raw:happen", event); err != nil {
		t.Fatal(err)
	}
}

func wait(t *testing.T, app *pyapp.App, event string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := pyapp.Call[string](ctx, app, "raw:wait", event); err != nil {
		t.Fatal(event, err)
	}
}

// TestClientGone: the app receives http.disconnect.
func TestClientGone(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			app := prepare(t, &pyapp.App{Target: "raw:app"})
			ctx, cancel := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "GET", start(t, app)+"/gone", nil)
			failed := make(chan error)
			go func() {
				_, err := client(t).Do(req)
				failed <- err
			}()
			wait(t, app, "begun")
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			wait(t, app, "disconnected")
		})
	}
}

// TestDeadlineOfARequest: the client gets 504, and the app http.disconnect.
func TestDeadlineOfARequest(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			app := prepare(t, &pyapp.App{Target: "raw:app"})
			wait := func(event string) { wait(t, app, event) }
			url := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithCancelCause(r.Context())
				defer cancel(nil)
				ctx, late := withManualDeadline(ctx)
				go func() {
					wait("begun")
					late()
				}()
				app.ServeHTTP(w, r.WithContext(ctx))
			}))
			if code, text := get(t, url+"/gone"); code != http.StatusGatewayTimeout {
				t.Error(code, text)
			}
			wait("disconnected")
		})
	}
}

// withManualDeadline returns a context with a deadline that passes when late is called.
func withManualDeadline(parent context.Context) (ctx context.Context, late func()) {
	d := &manualDeadline{Context: parent, done: make(chan struct{})}
	return d, func() { close(d.done) }
}

type manualDeadline struct {
	context.Context
	done chan struct{}
}

func (d *manualDeadline) Done() <-chan struct{}       { return d.done }
func (d *manualDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
func (d *manualDeadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
