package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// TestErrorLog: a panic is logged with its stack, and an error if no caller is told.
func TestErrorLog(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	var log strings.Builder // written by the only handler, before its call ends
	ended := make(chan struct{}, 1)
	options := relay.ServeOptions{Concurrency: 1, ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
	serve(t, bus, "work", options, func(_ context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "panic":
			panicHere()
		case "end":
			ended <- struct{}{}
			return nil, nil
		}
		return nil, errors.New("the error of " + string(r.Body))
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	defer c.Close()
	trace, err := tracing.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"call", "panic"} {
		if _, err := c.Call(tracing.With(t.Context(), trace), "work", []byte(body)); err == nil {
			t.Errorf("%s does not fail", body)
		}
	}
	for _, body := range []string{"job", "end"} {
		if err := bus.Publish(t.Context(), &relay.Envelope{Subject: "work", Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	<-ended
	text := log.String()
	for _, want := range []string{"relay: handler panicked: here", "panicHere", "subject=work", "trace=0af7651916cd43dd8448eb211c80319c", "the error of job"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the log:\n%s", want, text)
		}
	}
	if strings.Contains(text, "the error of call") {
		t.Errorf("an error that its caller has:\n%s", text)
	}
}

func panicHere() { panic("here") }
