package stream_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/stream"
)

// TestServeCancelledWhileAHandlerFails checks that the failure of one connection does not become
// that of a server that is cancelled at the same time.
func TestServeCancelledWhileAHandlerFails(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		var failures []error
		config := stream.ServeConfig{OnError: func(_ *stream.Conn, err error) error {
			failures = append(failures, err)
			return nil
		}}
		running := false
		err := served(t, ctx, config, func(ctx context.Context, c *stream.Conn) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
				running = true
				_ = spindle.Sleep(ctx, time.Hour)
				return io.EOF // the connection has ended, too
			})
		}, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			dial(t, ctx, ln)
			until.InTask(ctx, t, func() bool { return running })
			stop.Cancel(nil)
		})
		want(t, "Serve", err, context.Canceled)
		if errors.Is(err, io.EOF) {
			t.Errorf("Serve: %v", err)
		}
		if len(failures) != 1 || !errors.Is(failures[0], io.EOF) || errors.Is(failures[0], context.Canceled) {
			t.Errorf("OnError got %v", failures)
		}
	})
}
