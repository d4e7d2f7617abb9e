// Package routers tests that routers and middleware of other projects run unmodified on
// the server of package web.
package routers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

func routes() http.Handler {
	show := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %v", chi.URLParam(r, "id"), spindle.Current(r.Context()) != nil)
	}
	r := chi.NewRouter()
	r.Use(middleware.RequestID, middleware.Recoverer, middleware.Compress(5), middleware.Timeout(time.Minute))
	r.Get("/work/{id}", show)
	r.Method("GET", "/inline/{id}", web.Inline(http.HandlerFunc(show)))
	r.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("oh no") })
	return r
}

func TestChi(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.Handler
		want    map[string]string
	}{
		"on workers": {routes(), map[string]string{"/work/7": "200 7 false", "/inline/8": "200 8 true", "/panic": "500 ", "/none": "404 404 page not found\n"}},
		"inline":     {web.Inline(routes()), map[string]string{"/work/7": "200 7 true", "/inline/8": "200 8 true", "/panic": "500 "}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := loop.New(loop.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			sv, err := (&web.Server{Handler: tt.handler}).Listen(l, "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- l.Run(context.Background()) }()
			for path, want := range tt.want {
				res, err := http.Get("http://" + sv.Addr().String() + path)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if got := fmt.Sprintf("%d %s", res.StatusCode, body); got != want || err != nil {
					t.Errorf("%s: got %q, %v", path, got, err)
				}
			}
			http.DefaultClient.CloseIdleConnections()
			if err := sv.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			l.Stop()
			<-ended
		})
	}
}
