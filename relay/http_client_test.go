package relay_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/relay"
)

// TestHTTPWriterWithoutFlush: a stream is sent whole, if not at once, when something in front of
// the handler has hidden the Flush of the ResponseWriter.
func TestHTTPWriterWithoutFlush(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, work(nil))
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Minute})
	h := relay.HTTP(c, relay.Route{Subject: "work"})
	r := httptest.NewRequest("POST", "/", strings.NewReader("items"))
	r.Header.Set("Accept", "text/event-stream")
	w := httptest.NewRecorder()
	h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	if got := w.Body.String(); got != "data: one\n\ndata: two\ndata: lines\n\ndata: three\n\n" {
		t.Errorf("%q", got)
	}
	if s := h.Stats(); s != (relay.HTTPStats{OK: 1}) {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
