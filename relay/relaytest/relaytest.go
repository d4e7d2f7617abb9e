// Package relaytest tests implementations of relay.Bus against its contract.
//
//	func TestBus(t *testing.T) {
//		relaytest.Run(t, relaytest.Config{Connect: func(ctx context.Context) (relay.Bus, error) {
//			return connect(ctx, server)
//		}})
//	}
//
// Each test runs in tasks of one loop, and makes one or more connections to the same bus.
package relaytest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// Config describes the bus to be tested.
type Config struct {
	// Connect returns a connection to the bus. It is called several times in a test; an
	// implementation without connections returns the same bus each time. The test closes
	// what it gets. It must be able to close the same bus twice.
	Connect func(ctx context.Context) (relay.Bus, error)

	// Run runs the program of a test. Nil means a loop of its own.
	Run func(t *testing.T, program func(ctx context.Context) error)

	// Background is whether Listen and Subscribe may return before the registration is in
	// force. By default an envelope that is published afterwards must arrive.
	Background bool

	// Unseen is whether Publish does not wait for the queues of a subject, because they are
	// elsewhere. A request that does not fit must then be answered by a Failure with
	// the code "full".
	Unseen bool
}

// Run runs all tests.
func Run(t *testing.T, c Config) {
	if c.Run == nil {
		c.Run = onLoop
	}
	for _, test := range []struct {
		name string
		run  func(s *suite, ctx context.Context) error
	}{
		{"a call gets its reply", (*suite).replies},
		{"a failure is a RemoteError", (*suite).failures},
		{"a subject without workers has no responder", (*suite).noResponder},
		{"a request goes to one member of a group", (*suite).groups},
		{"every listener gets every envelope in order", (*suite).listeners},
		{"a cancelled call ends the context of its handler", (*suite).cancels},
		{"a deadline reaches the handler and ends the call", (*suite).deadlines},
		{"a stream arrives in order, and waits for its reader", (*suite).streams},
		{"a closed stream ends its handler", (*suite).closedStream},
		{"Next that is cancelled takes nothing", (*suite).canceledNext},
		{"a member that leaves takes no more", (*suite).leaves},
		{"a closed bus refuses", (*suite).closed},
		{"headers and trace arrive", (*suite).headers},
		{"bad subjects are refused", (*suite).subjects},
		{"no request in a full queue is lost", (*suite).fullQueues},
		{"Publish waits while the queue is full", (*suite).fullPublish},
		{"bodies arrive whole", (*suite).bodies},
		{"a body that is too large is refused", (*suite).tooLarge},
		{"nothing is delivered after Close", (*suite).closedListener},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.Run(t, func(ctx context.Context) error {
				s := &suite{T: t, c: c}
				return spindle.FailAfter(ctx, limit, func(ctx context.Context) error {
					return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
						s.n = n
						defer n.Scope().Cancel(nil)
						return test.run(s, ctx)
					})
				})
			})
		})
	}
}

// onLoop runs the program of a test on a loop of its own.
func onLoop(t *testing.T, program func(context.Context) error) {
	if err := spindle.Run(t.Context(), program); err != nil {
		t.Fatal(err)
	}
}

// limit is only there to end a test that hangs.
const limit = time.Minute

// suite is a test that runs.
type suite struct {
	*testing.T
	c Config
	n *spindle.Nursery // of workers
}

// connect returns a connection, which is closed when the test ends.
func (s *suite) connect(ctx context.Context) (relay.Bus, error) {
	b, err := s.c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s.n.Go(func(ctx context.Context) error {
		defer b.Close()
		return spindle.Sleep(ctx, 10*limit)
	})
	return b, s.until(ctx, "the bus is ready", func() bool { return b.Ready() == nil })
}

// until waits for a condition.
func (s *suite) until(ctx context.Context, what string, cond func() bool) error {
	for !cond() {
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return errors.Join(errors.New("relaytest: waiting until "+what), err)
		}
	}
	return nil
}

// settle waits until registrations are in force.
func (s *suite) settle(ctx context.Context) error {
	if !s.c.Background {
		return nil
	}
	return spindle.Sleep(ctx, 100*time.Millisecond)
}

// serve starts a worker on a connection of its own, and returns the worker and a function
// that stops it, and waits until it has stopped.
func (s *suite) serve(ctx context.Context, subject string, o relay.ServeOptions, h relay.Handler) (w *relay.Worker, stop func() error, err error) {
	bus, err := s.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	w = relay.NewWorker(bus)
	o.InTasks = true
	ready, ended := false, false
	o.Ready = func() { ready = true }
	var scope *spindle.Scope
	s.n.Go(func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, sc *spindle.Scope) error {
			scope = sc
			defer func() { ended = true }()
			return w.Serve(ctx, subject, h, o)
		})
	})
	if err := s.until(ctx, "requests reach the worker", func() bool { return ready }); err != nil {
		return nil, nil, err
	}
	stop = func() error {
		scope.Cancel(nil)
		return s.until(ctx, "the worker has stopped", func() bool { return ended })
	}
	return w, stop, s.settle(ctx)
}

// caller makes a Caller on a connection of its own.
func (s *suite) caller(ctx context.Context, o relay.CallerOptions) (*relay.Caller, error) {
	bus, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	c, err := relay.NewCaller(ctx, bus, o)
	if err != nil {
		return nil, err
	}
	return c, s.settle(ctx)
}

// echo is a handler that returns the body.
func echo(_ context.Context, r *relay.Request) ([]byte, error) { return r.Body, nil }
