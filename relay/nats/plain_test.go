package nats_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// TestFailureOfPlainWorker: a program without relay fails a call with the header Relay-Error, and
// gets the failure of a worker in the same way.
func TestFailureOfPlainWorker(t *testing.T) {
	b := start(t, broker.Options{})
	bus := connect(t, b, nats.Options{})
	plain, err := client.Connect(b.URL(), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, err = plain.Subscribe("plain", func(m *client.Msg) {
		_ = m.RespondMsg(&client.Msg{Header: client.Header{"Relay-Error": {"error"}}, Data: []byte("out of luck")}) // the call shows whether it came
	})
	if err == nil {
		err = plain.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	var remote *relay.RemoteError
	if _, err := caller(t, bus).Call(t.Context(), "plain", nil); !errors.As(err, &remote) || remote.Code != "error" || remote.Message != "out of luck" {
		t.Errorf("the call: %v", err)
	}
	serve(t, bus, "work", func(context.Context, *relay.Request) ([]byte, error) { return nil, errors.New("no luck either") }, relay.ServeOptions{})
	answer, err := plain.RequestWithContext(t.Context(), "work", nil)
	if err != nil || answer.Header.Get("Relay-Error") != "error" || string(answer.Data) != "no luck either" {
		t.Errorf("the answer to a plain client: %+v, %v", answer, err)
	}
}

// TestPathsOfHTTP: a path with any escape reaches the handler.
func TestPathsOfHTTP(t *testing.T) {
	bus := connect(t, start(t, broker.Options{}), nats.Options{})
	serve(t, bus, "work", func(_ context.Context, r *relay.Request) ([]byte, error) { return []byte(r.Headers["Http-Path"]), nil }, relay.ServeOptions{})
	h := gateway.New(caller(t, bus), gateway.Route{Subject: "work"})
	for _, path := range []string{"/path", "/path%20", "/%0Apath", "/a%2Fb", "/%C3%A9"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != http.StatusOK || w.Body.String() != path {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}
