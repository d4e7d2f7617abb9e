package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestPlanes(t *testing.T) {
	if os.Getenv("SPINDLE_PYTHON") == "" {
		t.Skip("SPINDLE_PYTHON is not set: it names an interpreter with the package spindle-loop")
	}
	url := "http://" + servertest.Listen(t, run)
	defer http.DefaultClient.CloseIdleConnections()
	slow := make(chan error, 1)
	go func() { slow <- post(url+"/wait", "100", "waited\n") }()
	for path, x := range map[string]struct{ body, want string }{
		"/count":  {"one two three", "3 words\n"},
		"/health": {"", "ready\n"},
		"/wait":   {"1", "waited\n"},
	} {
		if err := post(url+path, x.body, x.want); err != nil {
			t.Error(err)
		}
	}
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

// post sends a request until the workers have started, and compares the answer.
func post(url, body, want string) error {
	for {
		res, err := http.Post(url, "text/plain", strings.NewReader(body))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			return err
		}
		if res.StatusCode == http.StatusServiceUnavailable {
			continue
		}
		if res.StatusCode != http.StatusOK || string(text) != want {
			return fmt.Errorf("%s: %s %q, want %q", url, res.Status, text, want)
		}
		return nil
	}
}
