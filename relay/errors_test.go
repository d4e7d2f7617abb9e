package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle/relay"
)

// TestErrorTexts: an error says once what happened, to what, and on which side.
func TestErrorTexts(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	started, release := make(chan struct{}), make(chan struct{})
	_, stop := serve(t, bus, "pay", relay.ServeOptions{Results: relay.NewResults(10), Drain: time.Millisecond}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "hold":
			started <- struct{}{}
			<-release
		case "wait":
			started <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	call := func(body string) error {
		_, err := c.Do(t.Context(), relay.Envelope{
			Subject: "pay", Body: []byte(body), Headers: map[string]string{relay.IdempotencyKey: "key " + body},
		})
		return err
	}
	want := func(what string, err, is error, text string) {
		t.Helper()
		if err == nil || err.Error() != text || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v", what, err)
		}
	}
	held, stopped := make(chan error, 1), make(chan error, 1)
	go func() { held <- call("hold") }()
	<-started
	want("a request with the key of another", call("hold"), nil, "relay: pay: duplicate: a request with the same idempotency key runs")
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	go func() { stopped <- call("wait") }()
	<-started
	stop()
	want("a call of a worker that is stopped", <-stopped, nil, "relay: pay: canceled: the worker was stopped")
	want("no worker", call(""), relay.ErrNoResponder, "relay: no worker serves the subject: pay")
	other := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	if err := errors.Join(c.Close(), bus.Close()); err != nil {
		t.Error(err)
	}
	want("a closed Caller", call(""), relay.ErrClosed, "relay: closed: the Caller, for a call of pay")
	_, err := other.Call(t.Context(), "pay", nil)
	want("a closed bus", err, relay.ErrClosed, "relay: closed: the bus, for a call of pay")
}

// TestSubjectThatIsNone: the error has the subject, and says where the rules are.
func TestSubjectThatIsNone(t *testing.T) {
	c := newCaller(t, t.Context(), relay.NewLocal(relay.LocalOptions{}), relay.CallerOptions{})
	_, err := c.Call(t.Context(), "up per", nil)
	if !errors.Is(err, relay.ErrSubject) || err.Error() != `relay: not a subject: "up per"; see relay.CheckSubject` {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
