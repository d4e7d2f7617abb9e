package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/web"
)

func TestHEADHasTheHeaderOfGET(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 3000))
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			for range 2 {
				io.WriteString(nc, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
				res, body := response(t, br, "HEAD")
				if res.ContentLength != 3000 || body != "" || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
					t.Errorf("length %d, body %q, %v", res.ContentLength, body, res.Header)
				}
			}
		})
	}
}

func TestStatusesWithoutABody(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNoContent
		if r.URL.Path == "/304" {
			status = http.StatusNotModified
		}
		w.WriteHeader(status)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			t.Errorf("writing to %d: %v", status, err)
		}
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET /204 HTTP/1.1\r\nHost: a\r\n\r\nGET /304 HTTP/1.1\r\nHost: a\r\n\r\n")
			for _, status := range []int{204, 304} {
				head, err := textproto.NewReader(br).ReadLine()
				if err != nil || !strings.HasPrefix(head, fmt.Sprint("HTTP/1.1 ", status)) {
					t.Fatalf("got %q, %v", head, err)
				}
				h, err := textproto.NewReader(br).ReadMIMEHeader()
				if err != nil || h.Get("Content-Length") != "" || h.Get("Transfer-Encoding") != "" {
					t.Errorf("%d: %v, %v", status, h, err)
				}
			}
		})
	}
}

func TestInterimResponses(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1") // not for an interim response
		w.Header()["content-length"] = []string{"3"}
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "</other.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "tea")
	}) {
		t.Run(name, func(t *testing.T) {
			var links []string
			ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					links = append(links, fmt.Sprint(code, h.Get("Link")))
					return nil
				},
			})
			req, _ := http.NewRequestWithContext(ctx, "GET", url(serve(t, s), "/"), nil)
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if fmt.Sprint(links) != "[103</style.css> 103</other.css>]" || res.StatusCode != 418 || string(body) != "tea" {
				t.Errorf("got %v, %d %q", links, res.StatusCode, body)
			}
		})
	}
}

func TestChunkedResponses(t *testing.T) {
	const size = 300_000
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		for range size / 3 {
			io.WriteString(w, "abc")
		}
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			res, body := get(t, client(t), url(sv, "/"))
			if body != strings.Repeat("abc", size/3) || fmt.Sprint(res.TransferEncoding) != "[chunked]" {
				t.Errorf("%d bytes, %v", len(body), res.TransferEncoding)
			}
			// An old client cannot read chunks: the connection's end is the body's.
			nc, br := dial(t, sv)
			io.WriteString(nc, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
			old, body := response(t, br, "GET")
			if len(body) != size || !old.Close || len(old.TransferEncoding) > 0 {
				t.Errorf("HTTP/1.0: %d bytes, close %v, %v", len(body), old.Close, old.TransferEncoding)
			}
		})
	}
}

// TestFlushOfNothingDoesNotWaitForTheLoop, and fails when the client has reset the stream.
func TestFlushOfNothingDoesNotWaitForTheLoop(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			flushed, blocked, again, ended := make(chan bool), make(chan bool), make(chan bool), make(chan error)
			limit, release := context.WithTimeout(t.Context(), 20*time.Second)
			defer release()
			sv := serve(t, plainHTTP2(&web.Server{
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, "x")
					flush := http.NewResponseController(w).Flush
					if err := flush(); err != nil {
						t.Error(err)
					}
					flushed <- true
					<-blocked
					if err := flush(); err != nil {
						t.Error(err)
					}
					close(again)
					<-r.Context().Done()
					ended <- flush()
				}),
				Lean: func(c *web.LeanCtx) bool {
					if string(c.Path()) != "/block" {
						return false
					}
					close(blocked)
					select {
					case <-again:
					case <-limit.Done():
						t.Error("a flush of nothing waits for the loop")
					}
					return true
				},
			}))
			c := client(t)
			if protocol == "HTTP/2" {
				c = clientHTTP2(t)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req, _ := http.NewRequestWithContext(ctx, "GET", url(sv, "/"), nil)
			gone := make(chan error)
			go func() {
				res, err := c.Do(req)
				if err == nil {
					_, err = io.ReadAll(res.Body)
				}
				gone <- err
			}()
			<-flushed
			get(t, client(t), url(sv, "/block"))
			leave()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
			if err := <-ended; err == nil && protocol == "HTTP/2" {
				t.Error("no error after the client has gone")
			}
		})
	}
}
