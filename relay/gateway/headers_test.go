package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
)

// TestHeadersAndStatus: chosen header fields reach the worker, and its status and chosen header
// fields reach the client.
func TestHeadersAndStatus(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		r.SetHeader("Http-Status", r.Headers["Http-Query"])
		r.SetHeader("Location", "/there")
		r.SetHeader("Secret", "kept")
		return fmt.Append(nil, r.Headers["Authorization"], r.Headers["Accept-Language"], r.Headers["Cookie"]), nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	defer c.Close()
	h := gateway.New(c, gateway.Route{Subject: "work", Headers: []string{"Authorization", "Accept-Language"}, ReplyHeaders: []string{"Location"}})
	for query, want := range map[string]struct {
		status int
		body   string
	}{"": {200, "me:de, en"}, "404": {404, "me:de, en"}, "302": {302, "me:de, en"}, "204": {204, ""}, "101": {502, "Bad Gateway\n"}, "much": {502, "Bad Gateway\n"}} {
		r := httptest.NewRequest("GET", "/?"+query, nil)
		r.Header = http.Header{"Authorization": {"me:"}, "Accept-Language": {"de", "en"}, "Cookie": {"no"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want.status || w.Body.String() != want.body {
			t.Errorf("%s: %d %q", query, w.Code, w.Body)
		}
		if w.Code < 500 && (w.Header().Get("Location") != "/there" || w.Header().Get("Secret") != "") {
			t.Errorf("%s: %v", query, w.Header())
		}
	}
	if s := h.Stats(); s.OK != 4 || s.Failed != 2 {
		t.Errorf("%+v", s)
	}
}
