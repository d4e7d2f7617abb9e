package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
)

// TestKilledProcesses kills worker processes in both languages at random moments. Each call ends once, with its
// own reply or as that of a process that was killed, and a killed process fails one call at most.
// The environment variable SPINDLE_KILLS makes it go on for that long after the first kills.
func TestKilledProcesses(t *testing.T) {
	t.Run("Go", func(t *testing.T) {
		pool(t, process.Options{Processes: 3}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
			return killAtRandom(ctx, t, c, "", "re: ")
		})
	})
	t.Run("Python", func(t *testing.T) {
		python := os.Getenv("SPINDLE_PYTHON")
		if python == "" {
			t.Skip("SPINDLE_PYTHON is not set: it names an interpreter with the package spindle-loop")
		}
		o := process.Options{Command: []string{python, "-c", pythonWorker}, Env: os.Environ(), Stderr: io.Discard, Processes: 3}
		pool(t, o, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
			return killAtRandom(ctx, t, c, "upper ", "")
		})
	})
}

// kills is a run with killed processes. Loop goroutine only.
type kills struct {
	c                      *relay.Caller
	verb, answer           string // of a request, and of its reply
	calls, replied, exited int
	killed                 int
	pid                    int // a process that has just replied; 0 if it was killed
	over                   bool
}

func killAtRandom(ctx context.Context, t *testing.T, c *relay.Caller, verb, answer string) error {
	var d time.Duration
	if text := os.Getenv("SPINDLE_KILLS"); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	k := &kills{c: c, verb: verb, answer: answer}
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		for i := range 6 {
			n.Go(func(ctx context.Context) error { return k.call(ctx, i) })
		}
		return k.kill(ctx, d)
	})
	t.Logf("%d kills; of %d calls %d have a reply and %d have lost their process", k.killed, k.calls, k.replied, k.exited)
	if waiting := c.Stats().Waiting; k.calls != k.replied+k.exited || k.exited > k.killed || waiting > 0 {
		t.Errorf("not all calls have ended once, or too many have failed; %d wait", waiting)
	}
	return err
}

// call makes calls until the run is over.
func (k *kills) call(ctx context.Context, client int) error {
	for n := 0; !k.over; n++ {
		body, want := "pid", ""
		if n%2 == 0 {
			name := strings.ToUpper(fmt.Sprintf("c%d-%d", client, n))
			body, want = k.verb+name, k.answer+name
		}
		k.calls++
		got, err := k.c.Call(ctx, "work", []byte(body))
		switch failed := (*relay.RemoteError)(nil); {
		case errors.As(err, &failed) && strings.Contains(failed.Message, process.ErrExited.Error()):
			k.exited++
			continue
		case err != nil:
			return err
		case want == "":
			if k.pid, err = strconv.Atoi(string(got)); err != nil {
				return err
			}
		case string(got) != want:
			return fmt.Errorf("%q, not %q", got, want)
		}
		k.replied++
	}
	return nil
}

// kill kills processes that have replied, at least three, and until d has passed.
func (k *kills) kill(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); k.killed < 3 || time.Now().Before(end); {
		pause := time.Millisecond
		if d > 0 {
			pause += rand.N(50 * time.Millisecond) // so that moments differ
		}
		if err := spindle.Sleep(ctx, pause); err != nil {
			return err
		}
		if k.pid > 0 && proctest.KillChild(k.pid) {
			k.killed++
		}
		k.pid = 0
	}
	k.over = true
	return nil
}
