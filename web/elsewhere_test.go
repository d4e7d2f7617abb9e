package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// TestRequestInATaskOfAnotherLoop: the task waits for the body, and its loop goes on.
func TestRequestInATaskOfAnotherLoop(t *testing.T) {
	other, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- other.Run(context.Background()) }()
	defer func() {
		other.Stop()
		if err := errors.Join(<-ended, other.Close()); err != nil {
			t.Error(err)
		}
	}()
	reading := make(chan bool, 1)
	handler := func(w http.ResponseWriter, r *http.Request) {
		_, err := spindle.CallOn(r.Context(), other, func(context.Context) (int, error) {
			reading <- true
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return 0, err
			}
			return w.Write([]byte(strings.ToUpper(string(body))))
		})
		if err != nil {
			t.Error(err)
		}
	}
	for name, h := range map[string]http.Handler{"inline": web.Inline(http.HandlerFunc(handler)), "goroutine": http.HandlerFunc(handler)} {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, &web.Server{Handler: h}))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
			<-reading
			ctx, cancel := context.WithTimeout(t.Context(), until.Limit)
			defer cancel()
			if _, err := spindle.CallOn(ctx, other, func(context.Context) (int, error) { return 0, nil }); err != nil {
				t.Errorf("the loop of the task is blocked: %v", err)
			}
			io.WriteString(nc, "hello")
			if _, body := response(t, br, "POST"); body != "HELLO" {
				t.Errorf("got %q", body)
			}
		})
	}
}

// TestRequestInACallbackOfAnotherLoop: it would block that loop, and panics.
func TestRequestInACallbackOfAnotherLoop(t *testing.T) {
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other, err := loop.New(loop.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer other.Close()
		other.CallSoon(func() {
			defer func() {
				text, _ := recover().(string)
				io.WriteString(w, text)
			}()
			r.Body.Read(make([]byte, 1))
		})
		other.RunOnce(0)
	})})
	nc, br := dial(t, sv)
	io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
	if _, body := response(t, br, "POST"); body != "web: a request or response is used in a callback of a loop; start a task" {
		t.Errorf("got %q", body)
	}
}
