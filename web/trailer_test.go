package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/web"
)

func TestTrailersInBothDirections(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Trailer) != 1 || r.Trailer.Get("X-Sum") != "" {
			t.Errorf("before the body: %v", r.Trailer)
		}
		w.Header().Set("Trailer", "X-Back")
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
		w.Header().Set("X-Back", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-More", "yes")
	}) {
		t.Run(name, func(t *testing.T) {
			pr, pw := io.Pipe()
			req, _ := http.NewRequest("POST", url(serve(t, s), "/"), pr)
			req.Trailer = http.Header{"X-Sum": nil}
			go func() {
				io.WriteString(pw, "hello")
				req.Trailer.Set("X-Sum", "5")
				pw.Close()
			}()
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.Header.Get("X-Back") != "" {
				t.Errorf("a trailer came with the header: %v", res.Header)
			}
			body, _ := io.ReadAll(res.Body)
			if string(body) != "hello" || res.Trailer.Get("X-Back") != "5" || res.Trailer.Get("X-More") != "yes" {
				t.Errorf("got %q, %v", body, res.Trailer)
			}
		})
	}
}

// TestForbiddenTrailersAreDroppedAlone checks that a trailer that must not or cannot be sent is
// not declared, and that the others are sent.
func TestForbiddenTrailersAreDroppedAlone(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A, Content-Length, X-Bad")
		w.Header().Add("Trailer", "transfer-encoding")
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		for _, name := range []string{"X-A", "Content-Length", "Transfer-Encoding", http.TrailerPrefix + "X-B", http.TrailerPrefix + "Host"} {
			w.Header().Set(name, "1")
		}
		w.Header().Set("X-Bad", "1\r\nX-Split: 1")
	}) {
		var log logged
		s.ErrorLog = slog.New(slog.NewTextHandler(&log, nil))
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			res, body := response(t, br, "GET")
			if body != "hello" || len(res.Trailer) != 3 || res.Trailer.Get("X-A") != "1" || res.Trailer.Get("X-B") != "1" || res.Trailer.Get("X-Bad") != "" {
				t.Errorf("got %q, trailers %v", body, res.Trailer)
			}
			for _, name := range []string{"Content-Length", "Transfer-Encoding", "Host", "X-Bad"} {
				if !strings.Contains(log.String(), name) {
					t.Errorf("nothing is logged of %s: %s", name, log.String())
				}
			}
		})
	}
}

// TestUndeclaredTrailerReachesCopiesOfTheRequest covers the copy that Inline makes behind
// middleware, and copies of middleware.
func TestUndeclaredTrailerReachesCopiesOfTheRequest(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(r.Context())
		if len(r.Trailer) != 0 {
			t.Errorf("before the body's end: %v", r.Trailer)
		}
		io.Copy(w, r.Body)
		io.WriteString(w, " "+r.Trailer.Get("X-Sum"))
	}) {
		inner := s.Handler
		copying := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r.WithContext(r.Context()))
		})}
		for kind, s := range map[string]*web.Server{name: s, name + ", copied": copying} {
			t.Run(kind, func(t *testing.T) {
				got := raw(t, serve(t, s), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n", "POST")
				if got[0] != "200 hello 5" {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}
