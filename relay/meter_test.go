package relay_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/relay"
)

// metrics returns the samples of an inspector that have a text in them.
func metrics(t *testing.T, with string) (found []string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://localhost/metrics", nil)
	r.RemoteAddr = "127.0.0.1:1"
	inspect.Handler(inspect.Options{}).ServeHTTP(w, r)
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, with) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestMetricsOfCallsAndHandlers(t *testing.T) {
	metrics(t, "") // durations are measured from now on
	bus := relay.NewLocal(relay.LocalOptions{})
	begun, release := make(chan struct{}), make(chan struct{})
	_, stop := serve(t, bus, "metered", relay.ServeOptions{}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "fail":
			return nil, errors.New("out of luck")
		case "hold":
			close(begun)
			<-release
		}
		return nil, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	other := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	for _, caller := range []*relay.Caller{c, other} { // their metrics are added
		for _, body := range []string{"", "fail"} {
			_, _ = caller.Call(t.Context(), "metered", []byte(body))
		}
	}
	held := make(chan error)
	go func() {
		_, err := c.Call(t.Context(), "metered", []byte("hold"))
		held <- err
	}()
	<-begun
	has := func(want ...string) {
		t.Helper()
		all := strings.Join(metrics(t, "spindle_relay_"), "\n")
		for _, line := range want {
			if !strings.Contains(all+"\n", line+"\n") {
				t.Errorf("no %s in\n%s", line, all)
			}
		}
	}
	has(
		`spindle_relay_waiters{} 1`,
		`spindle_relay_handlers{subject="metered",group="workers"} 1`,
		`spindle_relay_requests_total{subject="metered",group="workers",result="ok"} 2`,
		`spindle_relay_requests_total{subject="metered",group="workers",result="failed"} 2`,
		`spindle_relay_call_duration_seconds_count{subject="metered"} 4`,
		`spindle_relay_handler_duration_seconds_count{subject="metered",group="workers"} 4`,
		`# TYPE spindle_relay_call_duration_seconds histogram`,
	)
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	c.Close()
	other.Close()
	stop()
	if left := metrics(t, `subject="metered"`); len(left) != 0 {
		t.Errorf("after the end there is %q", left)
	}
}
