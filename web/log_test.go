package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/web"
)

func TestMistakesOfHandlers(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/twice":
			w.WriteHeader(201)
			w.WriteHeader(202)
		case "/long":
			w.Header().Set("Content-Length", "3")
			if _, err := io.WriteString(w, "four"); err != http.ErrContentLength {
				t.Errorf("too much: %v", err)
			}
			io.WriteString(w, "abc")
		case "/short":
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "abc")
		case "/split":
			w.Header().Set("X-A", "1\r\nX-B: 2")
			io.WriteString(w, "abc")
		case "/length":
			w.Header().Set("Content-Length", "many")
			io.WriteString(w, "abc")
		}
	}) {
		var log logged
		s.ErrorLog = slog.New(slog.NewTextHandler(&log, nil))
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			c := client(t)
			if res, _ := get(t, c, url(sv, "/twice")); res.StatusCode != 201 || !strings.Contains(log.String(), "superfluous") {
				t.Errorf("twice: %d, %q", res.StatusCode, log.String())
			}
			if _, body := get(t, c, url(sv, "/long")); body != "abc" {
				t.Errorf("long: %q", body)
			}
			res, err := c.Get(url(sv, "/short"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(res.Body); err != io.ErrUnexpectedEOF {
				t.Errorf("short: %v", err)
			}
			res.Body.Close()
			if res, _ := get(t, c, url(sv, "/split")); res.StatusCode != 500 || res.Header.Get("X-B") != "" {
				t.Errorf("split: %d %v", res.StatusCode, res.Header)
			}
			if _, body := get(t, c, url(sv, "/length")); body != "abc" {
				t.Errorf("length: %q", body)
			}
		})
	}
}

func TestAccessLog(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		io.WriteString(w, "hello")
	}) {
		var log logged
		s.AccessLog = slog.New(slog.NewTextHandler(&log, nil))
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("hi") }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			c := client(t)
			get(t, c, url(sv, "/a?b=c"))
			get(t, c, url(sv, "/lean"))
			if err := sv.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			for _, want := range []string{
				"msg=request remote=127.0.0.1:",
				`method=GET host=` + sv.Addr().String() + ` target="/a?b=c" proto=HTTP/1.1 status=201 bytes=5 took=`,
				`target=/lean proto=HTTP/1.1 status=200 bytes=2 took=`,
			} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %q in %q", want, log.String())
				}
			}
		})
	}
}
