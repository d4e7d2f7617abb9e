package relaydemo_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/cmd/spindle/relaydemo"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
)

func TestMain(m *testing.M) { leak.Main(m) }

// shared is a bus that is closed by none of the planes.
type shared struct{ relay.Bus }

func (shared) Close() error { return nil }

// serve runs a demo until the test ends, and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	bus := relay.NewLocal(relay.LocalOptions{})
	at, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- relaydemo.Serve(ctx, "127.0.0.1:0", relaydemo.Options{
			Bus: "a test", Connect: func(context.Context) (relay.Bus, error) { return shared{bus}, nil },
		}, func(a net.Addr) { at <- a })
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-at:
		return "http://" + a.String()
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

func fetch(t *testing.T, ctx context.Context, method, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}

// state is the part of /state that tests look at.
type state struct {
	Bus, Ready string
	Calls      relay.CallerStats
	HTTP       gateway.Stats
	Waiters    []struct{ ID string }
	Workers    []struct {
		Running       bool
		Busy          int
		Done, Stopped uint64
	}
}

func stateOf(t *testing.T, url string) (s state) {
	t.Helper()
	status, text := fetch(t, t.Context(), "GET", url+"/state")
	if err := json.Unmarshal([]byte(text), &s); status != http.StatusOK || err != nil {
		t.Fatalf("state: %d %s, %v", status, text, err)
	}
	return s
}

// await waits for a state.
func await(t *testing.T, url string, is func(s state) bool) {
	t.Helper()
	var s state
	if !until.Tried(func() bool { s = stateOf(t, url); return is(s) }) {
		t.Fatalf("%+v", s)
	}
}

func TestDemoAnswers(t *testing.T) {
	url := serve(t)
	for _, test := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", "/", 200, "<title>Spindle: two planes</title>"},
		{"GET", "/work?ms=1", 200, "worked for 1ms"},
		{"GET", "/work?ms=x", 400, "ms must be a number from 0 to 20000"},
		{"GET", "/work?ms=20001", 400, "ms must be a number from 0 to 20000"},
		{"GET", "/health", 200, "ok"},
		{"GET", "/ready", 200, "ready"},
		{"GET", "/state", 200, `"Bus":"a test"`},
		{"POST", "/workers/3/kill", 404, "workers 1 to 2"},
		{"POST", "/workers/1/dance", 404, "want kill or start"},
		{"GET", "/workers/1/kill", 405, ""},
		{"GET", "/nothing", 404, ""},
	} {
		if status, text := fetch(t, t.Context(), test.method, url+test.path); status != test.status || !strings.Contains(text, test.text) {
			t.Errorf("%s %s: %d %s", test.method, test.path, status, text)
		}
	}
	if s := stateOf(t, url); s.Calls.Replied != 1 || s.HTTP.OK != 1 || s.Calls.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// TestClientThatLeaves: the cancel reaches the worker, and no waiter is left.
func TestClientThatLeaves(t *testing.T) {
	url := serve(t)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		fetch(t, ctx, "GET", url+"/work?ms=20000")
		close(ended)
	}()
	await(t, url, func(s state) bool { return s.Workers[0].Busy+s.Workers[1].Busy == 1 && len(s.Waiters) == 1 })
	leave()
	<-ended
	await(t, url, func(s state) bool {
		return s.Calls.Waiting == 0 && s.Calls.CancelsSent == 1 && s.Workers[0].Stopped+s.Workers[1].Stopped == 1 && s.HTTP.ClientGone == 1
	})
}

// TestWorkersAreKilled: calls of a worker that is killed fail. With no worker at all, they
// fail at once. A worker that is started again serves.
func TestWorkersAreKilled(t *testing.T) {
	url := serve(t)
	statuses := make(chan int)
	for range 4 {
		go func() {
			status, _ := fetch(t, t.Context(), "GET", url+"/work?ms=20000")
			statuses <- status
		}()
	}
	await(t, url, func(s state) bool { return s.Workers[0].Busy+s.Workers[1].Busy == 4 })
	for _, path := range []string{"/workers/1/kill", "/workers/2/kill", "/workers/2/kill"} {
		if status, text := fetch(t, t.Context(), "POST", url+path); status != http.StatusNoContent {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for range 4 {
		if status := <-statuses; status != http.StatusBadGateway {
			t.Errorf("a call of a worker that was killed: %d", status)
		}
	}
	if status, _ := fetch(t, t.Context(), "GET", url+"/work?ms=1"); status != http.StatusServiceUnavailable {
		t.Errorf("without workers: %d", status)
	}
	if s := stateOf(t, url); s.Workers[0].Running || s.Workers[1].Running || s.Calls.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	if status, text := fetch(t, t.Context(), "POST", url+"/workers/2/start"); status != http.StatusNoContent {
		t.Errorf("start: %d %s", status, text)
	}
	if status, _ := fetch(t, t.Context(), "GET", url+"/work?ms=1"); status != http.StatusOK {
		t.Errorf("with a worker: %d", status)
	}
}

// TestOtherSitesKillNothing: a page of another site cannot use the buttons.
func TestOtherSitesKillNothing(t *testing.T) {
	url := serve(t)
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://other.example"} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/workers/1/kill", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(name, value)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden || !stateOf(t, url).Workers[0].Running {
			t.Errorf("%s: %s: status %d", name, value, answer.StatusCode)
		}
	}
}
