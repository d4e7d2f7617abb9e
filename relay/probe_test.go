package relay_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
)

// callsShown returns the calls that an inspector shows, with those of a subject only.
func callsShown(t *testing.T, subject string) (a inspectapi.CallsAnswer) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://localhost/api/v1/calls?q="+subject, nil)
	r.RemoteAddr = "127.0.0.1:1"
	inspect.Handler(inspect.Options{}).ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return a
}

func TestInspectorShowsCallsThatWait(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	begun, release := make(chan struct{}), make(chan struct{})
	serve(t, bus, "inspected", relay.ServeOptions{}, func(context.Context, *relay.Request) ([]byte, error) {
		close(begun)
		<-release
		return nil, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Hour})
	if a := callsShown(t, "inspected"); len(a.Calls) != 0 {
		t.Errorf("before the call there is %+v", a.Calls)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "inspected", nil)
		ended <- err
	}()
	<-begun
	a := callsShown(t, "inspected")
	if len(a.Calls) != 1 || a.Total < 1 {
		t.Fatalf("the inspector shows %+v", a)
	}
	if one := a.Calls[0]; one.Subject != "inspected" || one.Task || one.Stream || one.AgeNS < 0 || one.DeadlineLeftNS <= 0 || one.DeadlineLeftNS > int64(time.Hour) {
		t.Errorf("the call is shown as %+v", one)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if a := callsShown(t, "inspected"); len(a.Calls) != 0 {
		t.Errorf("after the call there is %+v", a.Calls)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestCallerThatIsNotClosed leaves nothing behind in the inspector.
func TestCallerThatIsNotClosed(t *testing.T) {
	shown := func() (n int) {
		probe.EachCaller(func(int, probe.Caller) { n++ })
		return n
	}
	runtime.GC()
	before := shown()
	for range 10 {
		if _, err := relay.NewCaller(t.Context(), relay.NewLocal(relay.LocalOptions{}), relay.CallerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	until.Holds(t, func() bool { runtime.GC(); return shown() <= before })
}

// queued returns how many requests wait in the queues of a subject, by the metrics of its workers.
func queued(subject string) (n int) {
	for _, m := range probe.AllMetered() {
		for _, s := range m.ProbeMetrics() {
			if s.Name == "spindle_relay_queued" && s.Labels[0] == [2]string{"subject", subject} {
				n += int(s.Value)
			}
		}
	}
	return n
}
