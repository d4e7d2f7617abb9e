package process_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
)

// meddler is a bus that does something before it passes an item on.
type meddler struct {
	relay.Bus
	onItem func(e *relay.Envelope)
}

func (m *meddler) TryPublish(e *relay.Envelope) error {
	if e.Kind == relay.KindItem {
		m.onItem(e)
	}
	return m.Bus.TryPublish(e)
}

// TestCancellationWhileItemsAreSent: the call ends on another goroutine between two items, and
// Send fails before the scope of the handler is cancelled. The process is asked to give the
// request up, as after any cancellation, and goes on.
func TestCancellationWhileItemsAreSent(t *testing.T) {
	noFilesLeft(t)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			bus := &meddler{Bus: relay.NewLocal(relay.LocalOptions{})}
			c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Minute})
			if err != nil {
				return err
			}
			var s *relay.Stream
			pid := ""
			bus.onItem = func(e *relay.Envelope) {
				pid = string(e.Body)
				closed := make(chan error)
				go func() { closed <- s.Close() }()
				if err := <-closed; err != nil {
					t.Error(err)
				}
			}
			ready := spindle.NewFuture[struct{}](ctx)
			n.Go(func(ctx context.Context) error {
				return process.Serve(ctx, bus, "work", process.Options{
					Command: []string{os.Args[0]}, Env: append(os.Environ(), workerVariable+"=1"),
					Grace: time.Minute, Ready: func() { ready.Resolve(struct{}{}) },
				})
			})
			if _, err := ready.Await(ctx); err != nil {
				return err
			}
			if s, err = c.Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("pairs")}); err != nil {
				return err
			}
			after, err := c.Call(ctx, "work", []byte("pid"))
			if string(after) != pid {
				t.Errorf("process %q has been replaced by %q", pid, after)
			}
			return errors.Join(err, c.Close())
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestProcessThatAnswersACancellationTwice: the second answer does not go to the first call of
// another Caller, which has the same ID, and the process goes on.
func TestProcessThatAnswersACancellationTwice(t *testing.T) {
	noFilesLeft(t)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			bus := relay.NewLocal(relay.LocalOptions{})
			ready := spindle.NewFuture[struct{}](ctx)
			n.Go(func(ctx context.Context) error {
				return process.Serve(ctx, bus, "work", process.Options{
					Command: []string{os.Args[0]}, Env: append(os.Environ(), workerVariable+"=1"),
					Grace: time.Minute, Ready: func() { ready.Resolve(struct{}{}) },
				})
			})
			if _, err := ready.Await(ctx); err != nil {
				return err
			}
			var callers [2]*relay.Caller
			for i := range callers {
				var err error
				if callers[i], err = relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Minute}); err != nil {
					return err
				}
				defer callers[i].Close()
			}
			s, err := callers[0].Stream(ctx, relay.Envelope{Subject: "work", Body: []byte("twice")})
			if err != nil {
				return err
			}
			pid, err := s.Next(ctx)
			if err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
			after, err := callers[1].Call(ctx, "work", []byte("pid"))
			if string(after) != string(pid) {
				t.Errorf("got %q from process %q", after, pid)
			}
			return err
		})
	})
	if err != nil {
		t.Error(err)
	}
}
