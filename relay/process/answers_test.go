package process_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
)

// TestProcessThatAnswersTwice is replaced, and the call after its own does not fail.
func TestProcessThatAnswersTwice(t *testing.T) {
	pool(t, process.Options{}, func(t *testing.T, ctx context.Context, c *relay.Caller) error {
		first, err := c.Call(ctx, "work", []byte("double"))
		if err != nil {
			return err
		}
		second, err := c.Call(ctx, "work", []byte("again"))
		if err != nil {
			t.Errorf("the call after two answers in one piece: %v", err)
		}
		innocent, err := c.Call(ctx, "work", []byte("hello"))
		if err != nil || string(innocent) != string(second) {
			t.Errorf("the call during which a second answer came: %q, %v", innocent, err)
		}
		third, err := c.Call(ctx, "work", []byte("pid"))
		if err != nil || string(third) == string(second) || string(second) == string(first) {
			t.Errorf("processes %s, %s and %s have answered, %v", first, second, third, err)
		}
		for _, pid := range []string{string(first), string(second)} {
			n, err := strconv.Atoi(pid)
			if err != nil {
				return err
			}
			for proctest.Alive(n) {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
