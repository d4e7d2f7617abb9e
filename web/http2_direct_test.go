package web_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/spindleloop/spindle/internal/direct"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// directly answers by the interface of package direct, and otherwise says that it could not.
type directly struct{ fields, trailers string }

func (d directly) ServeDirect(w direct.Response, _ *http.Request) {
	w.Respond(d.fields)
	_, _ = io.WriteString(w, "direct")
	w.Trail(d.trailers)
}

func (directly) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, "map")
}

func encodedField(t *testing.T, name, value string) string {
	t.Helper()
	b, err := http2.AppendField(nil, name, value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDirectHandlers: a handler encodes its fields only on a stream, and only if nothing is around it.
func TestDirectHandlers(t *testing.T) {
	t.Parallel()
	h := directly{encodedField(t, "Content-Type", "a/b"), encodedField(t, "X-T", "1")}
	around := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
	for _, tt := range []struct {
		name                       string
		handler                    http.Handler
		client                     func(testing.TB) *http.Client
		body, contentType, trailer string
	}{
		{"inline", web.Inline(h), clientHTTP2, "direct", "a/b", "1"},
		{"goroutine", h, clientHTTP2, "direct", "a/b", "1"},
		{"middleware", web.Inline(around), clientHTTP2, "map", "text/plain", ""},
		{"HTTP/1.1", web.Inline(h), client, "map", "text/plain", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(&web.Server{Handler: tt.handler}))
			res, body := get(t, tt.client(t), url(sv, "/"))
			if body != tt.body || res.Header.Get("Content-Type") != tt.contentType || res.Trailer.Get("X-T") != tt.trailer {
				t.Errorf("got %q, %v, trailers %v", body, res.Header, res.Trailer)
			}
		})
	}
}
