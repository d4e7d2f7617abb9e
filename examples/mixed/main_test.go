package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestTheProgram(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `callback: before any task
task: added up 5
task: the mean is 20 <nil>
goroutine: the sum is 100 <nil>
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// cancelAt calls cancel at the n-th write.
type cancelAt struct {
	n      int
	cancel context.CancelFunc
}

func (c *cancelAt) Write(p []byte) (int, error) {
	if c.n--; c.n == 0 {
		c.cancel()
	}
	return len(p), nil
}

// TestItCanBeCancelled cancels at each line. The program and its goroutines must end, which
// leak.Main checks. The program may finish before the cancellation arrives.
func TestItCanBeCancelled(t *testing.T) {
	for line := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		if line == 0 {
			cancel()
		}
		if err := run(ctx, &cancelAt{line, cancel}); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at line %d it ended with %v", line, err)
		}
		cancel()
	}
}
