package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spindleloop/spindle/relay"
)

// An interceptor adds a header to each request, and makes calls again that no worker has got. On
// the other side, a function from Handler to Handler does what an interceptor does.
func ExampleCallerOptions_intercept() {
	bus := relay.NewLocal(relay.LocalOptions{})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	greet := func(_ context.Context, r *relay.Request) ([]byte, error) {
		return []byte("hello " + r.Headers["User"]), nil
	}
	logged := func(h relay.Handler) relay.Handler {
		return func(ctx context.Context, r *relay.Request) ([]byte, error) {
			fmt.Println("request of", r.Subject)
			return h(ctx, r)
		}
	}
	ended := make(chan error)
	work := func() {
		ready := make(chan struct{})
		go func() {
			ended <- relay.NewWorker(bus).Serve(ctx, "greet", logged(greet), relay.ServeOptions{Ready: func() { close(ready) }})
		}()
		<-ready
	}
	caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{
		Intercept: func(ctx context.Context, e *relay.Envelope, next func(context.Context, *relay.Envelope) (*relay.Envelope, error)) (*relay.Envelope, error) {
			e.Headers = map[string]string{"User": "Ada"}
			reply, err := next(ctx, e)
			for n := 0; errors.Is(err, relay.ErrNoResponder) && n < 3; n++ {
				fmt.Println("again")
				work() // a program would wait
				reply, err = next(ctx, e)
			}
			return reply, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := caller.Call(ctx, "greet", nil)
	fmt.Println(string(reply), err)
	caller.Close()
	stop()
	<-ended
	// Output:
	// again
	// request of greet
	// hello Ada <nil>
}

func TestInterceptorOfStreams(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		return nil, r.Send(ctx, []byte(r.Headers["Color"]))
	})
	var do func(e *relay.Envelope, next func() error) error
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{
		Intercept: func(ctx context.Context, e *relay.Envelope, next func(context.Context, *relay.Envelope) (*relay.Envelope, error)) (*relay.Envelope, error) {
			return nil, do(e, func() error { _, err := next(ctx, e); return err })
		},
	})
	do = func(e *relay.Envelope, next func() error) error {
		e.Headers = map[string]string{"Color": "red"}
		return errors.Join(next(), next()) // the second one counts
	}
	s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"})
	if err != nil {
		t.Fatal(err)
	}
	if item, err := s.Next(t.Context()); string(item) != "red" || err != nil {
		t.Errorf("%q, %v", item, err)
	}
	s.Close()
	no := errors.New("no")
	do = func(_ *relay.Envelope, next func() error) error { return errors.Join(next(), no) }
	if s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"}); s != nil || !errors.Is(err, no) {
		t.Errorf("%v, %v", s, err)
	}
	do = func(*relay.Envelope, func() error) error { return nil }
	if s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"}); s != nil || err == nil {
		t.Errorf("a stream without a request: %v, %v", s, err)
	}
	if _, err := c.Call(t.Context(), "work", nil); err == nil {
		t.Error("a call without a request has succeeded")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
