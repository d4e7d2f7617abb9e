package loop_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

func newLoop(tb testing.TB, opts loop.Options) *loop.Loop {
	tb.Helper()
	l, err := loop.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return l
}

// run runs l until Stop and fails on anything else.
func run(tb testing.TB, l *loop.Loop) {
	tb.Helper()
	if err := l.Run(context.Background()); err != nil {
		tb.Fatal(err)
	}
}
