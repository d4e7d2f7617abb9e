package process_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
)

// TestPausesBeforeProcessesStart: requests that make their processes crash cause a short pause
// each, which does not grow, so that they do not hold up other requests. The clock only advances
// by the pauses.
func TestPausesBeforeProcessesStart(t *testing.T) {
	const ms = time.Millisecond
	for name, socket := range map[string]bool{"pipes": false, "socket": true} {
		t.Run(name, func(t *testing.T) {
			var pauses []time.Duration
			now := time.Unix(1, 0)
			o := process.Options{Socket: socket, Backoff: 100 * ms, MaxBackoff: 500 * ms}.WithClock(
				func(context.Context) time.Time { return now },
				func(ctx context.Context, d time.Duration, _ func(context.Context) error) (bool, error) {
					pauses = append(pauses, d)
					now = now.Add(d)
					return true, spindle.Checkpoint(ctx)
				})
			serve(t, o, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
				for i, step := range []struct {
					body   string
					pauses []time.Duration
				}{
					{"exit", nil}, // the process of the first call, which has answered
					{"exit", nil},
					{"exit", []time.Duration{100 * ms}},
					{"exit", []time.Duration{100 * ms}},
					{"garbage", []time.Duration{100 * ms}},
					{"exit", []time.Duration{100 * ms}},
					{"x", []time.Duration{100 * ms}},
					{"x", nil},
					{"exit", nil},
					{"exit", nil},
					{"x", []time.Duration{100 * ms}},
				} {
					pauses = nil
					if _, err := c.Call(ctx, "work", []byte(step.body)); (err == nil) != (step.body == "x") {
						t.Errorf("call %d: %v", i, err)
					}
					if !slices.Equal(pauses, step.pauses) {
						t.Errorf("call %d: %s after pauses %v, want %v", i, step.body, pauses, step.pauses)
					}
				}
				return nil
			})
		})
	}
}

// TestPausesBeforeProcessesThatDoNotStart: they double while processes end before they can get a
// request, up to a limit, and begin again after an answer.
func TestPausesBeforeProcessesThatDoNotStart(t *testing.T) {
	const ms = time.Millisecond
	var pauses []time.Duration
	now := time.Unix(1, 0)
	fails := filepath.Join(t.TempDir(), "fails")
	script := "if [ -e '" + fails + "' ]; then exit 5; fi; exec '" + os.Args[0] + "'"
	o := process.Options{Command: []string{"/bin/sh", "-c", script}, Socket: true, Backoff: 100 * ms, MaxBackoff: 500 * ms}.WithClock(
		func(context.Context) time.Time { return now },
		func(ctx context.Context, d time.Duration, _ func(context.Context) error) (bool, error) {
			pauses = append(pauses, d)
			now = now.Add(d)
			return true, spindle.Checkpoint(ctx)
		})
	serve(t, o, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		if err := os.WriteFile(fails, nil, 0o600); err != nil {
			return err
		}
		for range 6 {
			if _, err := c.Call(ctx, "work", []byte("exit")); err == nil {
				t.Error("the process has not failed")
			}
		}
		if err := os.Remove(fails); err != nil {
			return err
		}
		for _, body := range []string{"x", "exit", "exit", "x"} {
			_, _ = c.Call(ctx, "work", []byte(body))
		}
		want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 500 * ms, 500 * ms, 100 * ms}
		if !slices.Equal(pauses, want) {
			t.Errorf("the pauses are %v, want %v", pauses, want)
		}
		return nil
	})
}

// TestProcessThatBecomesFreeDuringAPause serves the request that waits for the end of the
// pause. The clock does not advance.
func TestProcessThatBecomesFreeDuringAPause(t *testing.T) {
	for name, socket := range map[string]bool{"pipes": false, "socket": true} {
		t.Run(name, func(t *testing.T) {
			var paused cosync.Event
			o := process.Options{Socket: socket, Processes: 2, Grace: time.Minute}.WithClock(
				func(context.Context) time.Time { return time.Unix(1, 0) },
				func(ctx context.Context, _ time.Duration, fn func(context.Context) error) (bool, error) {
					paused.Set()
					return false, fn(ctx)
				})
			serve(t, o, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
				s, err := c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("pairs")}) // uses its process until it is closed
				if err != nil {
					return err
				}
				pid, err := s.Next(ctx)
				if err != nil {
					return err
				}
				if _, err := c.Call(ctx, "work", []byte("exit")); err == nil {
					t.Error("the process has not failed")
				}
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(ctx context.Context) error {
						got, err := c.Call(ctx, "work", []byte("pid"))
						if string(got) != string(pid) {
							t.Errorf("process %q has served the request, and not process %q", got, pid)
						}
						return err
					})
					if err := paused.Wait(ctx); err != nil {
						return err
					}
					return s.Close()
				})
			})
		})
	}
}
