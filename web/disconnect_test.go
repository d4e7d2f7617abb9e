package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// untilEnd waits for the end of the request's context, as a task or as a goroutine.
func untilEnd(ctx context.Context) error {
	if spindle.Current(ctx) != nil {
		spindle.Sleep(ctx, time.Hour)
	} else {
		<-ctx.Done()
	}
	if ctx.Err() != context.Canceled {
		return errors.New("the context's error is not context.Canceled")
	}
	return context.Cause(ctx)
}

func TestClientGoneCancelsTheHandler(t *testing.T) {
	leak.Check(t, 2<<20)
	causes := make(chan error, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		causes <- untilEnd(r.Context())
	}) {
		for how, leave := range map[string]func(*net.TCPConn){
			"closed":      func(c *net.TCPConn) { c.Close() },
			"reset":       func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
			"half-closed": func(c *net.TCPConn) { c.CloseWrite() },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				nc, br := dial(t, serve(t, s))
				io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if _, err := http.ReadResponse(br, nil); err != nil {
					t.Fatal(err)
				}
				leave(nc.(*net.TCPConn))
				if err := <-causes; err != web.ErrClientGone {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestClientGoneAfterALargeBodyCancelsTheHandler: reading pauses when a body comes faster than
// it is read. The end of the body ends the pause, even if the handler reads nothing.
func TestClientGoneAfterALargeBodyCancelsTheHandler(t *testing.T) {
	const size = 64 << 10 // reading pauses at its end
	causes := make(chan error, 1)
	for name, read := range map[string]bool{"read": true, "unread": false} {
		for kind, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
			if read {
				io.Copy(io.Discard, r.Body)
			}
			w.(http.Flusher).Flush()
			causes <- untilEnd(r.Context())
		}) {
			t.Run(kind+", "+name, func(t *testing.T) {
				nc, br := dial(t, serve(t, s))
				fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
				if _, err := http.ReadResponse(br, nil); err != nil {
					t.Fatal(err)
				}
				nc.Close()
				if err := <-causes; err != web.ErrClientGone {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

func TestClientGoneMidBodyEndsTheBody(t *testing.T) {
	leak.Check(t, 2<<20)
	ends := make(chan error, 2)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if string(body) != "abc" {
			t.Errorf("read %q", body)
		}
		ends <- err
		ends <- untilEnd(r.Context())
	}) {
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
			nc.Close()
			if err := <-ends; err == nil {
				t.Error("the body ended in order")
			}
			if err := <-ends; err != web.ErrClientGone {
				t.Errorf("the context ended with %v", err)
			}
		})
	}
}

// TestHalfClosedClientIsAnswered checks that all requests of a half-closed client are
// answered before the connection ends.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }) {
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
			nc.(*net.TCPConn).CloseWrite()
			all, err := io.ReadAll(nc)
			if err != nil || !strings.Contains(string(all), "/1") || !strings.HasSuffix(string(all), "/2") {
				t.Errorf("got %q, %v", all, err)
			}
		})
	}
}

// TestHalfClosedClientIsGoneForTheLastRequest checks that the context of the last request
// ends when the client has closed its sending side.
func TestHalfClosedClientIsGoneForTheLastRequest(t *testing.T) {
	causes := make(chan error, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/last" {
			causes <- untilEnd(r.Context())
		}
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /last HTTP/1.1\r\nHost: a\r\n\r\n")
			nc.(*net.TCPConn).CloseWrite()
			if err := <-causes; err != web.ErrClientGone {
				t.Errorf("got %v", err)
			}
			response(t, br, "GET")
			response(t, br, "GET")
		})
	}
}

// TestWriteFailsAfterAFailedFlush checks that a handler that only looks at the errors of
// Write, as an event stream may, notices that the client has disconnected.
func TestWriteFailsAfterAFailedFlush(t *testing.T) {
	type result struct{ flush, write, again error }
	results := make(chan result, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "event")
		w.(http.Flusher).Flush()
		untilEnd(r.Context())
		var got result
		for got.flush == nil { // a client that only closed may still read
			io.WriteString(w, "event")
			got.flush = http.NewResponseController(w).Flush()
		}
		_, got.write = io.WriteString(w, "event")
		_, got.again = w.Write([]byte("event"))
		results <- got
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, err := http.ReadResponse(br, nil); err != nil {
				t.Fatal(err)
			}
			nc.(*net.TCPConn).SetLinger(0)
			nc.Close()
			if got := <-results; got.write != got.flush || got.again != got.flush {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestCloseNotifyTellsThatTheClientIsGone checks that CloseNotify's channel receives a value
// only when the client disconnects.
func TestCloseNotifyTellsThatTheClientIsGone(t *testing.T) {
	ready, told := make(chan bool, 1), make(chan bool)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		gone := w.(http.CloseNotifier).CloseNotify() //lint:ignore SA1019 frameworks still use it
		if r.URL.Path == "/returns" {
			go func() {
				<-r.Context().Done()
				select {
				case <-gone:
					told <- true
				default:
					told <- false
				}
			}()
			return
		}
		ready <- true
		if err := untilEnd(r.Context()); err != web.ErrClientGone {
			t.Error(err)
		}
		go func() { told <- <-gone }()
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			get(t, client(t), url(sv, "/returns"))
			if <-told {
				t.Error("notified although the client is connected")
			}
			nc, _ := dial(t, sv)
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			<-ready
			nc.Close()
			if !<-told {
				t.Error("not notified")
			}
		})
	}
}

// TestEndOfAPipelineEndsItsLastRequest pipelines a slow request and one that is cut off, and
// closes the sending side while the first is answered. The second must end as soon as its
// turn comes, with every kind of handler.
func TestEndOfAPipelineEndsItsLastRequest(t *testing.T) {
	leak.Check(t, 2<<20)
	server, trust := certified(t)
	trust = trust.Clone()
	trust.ServerName = "example.com"
	goOn := make(chan bool)
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			wait := func() (struct{}, error) { <-goOn; return struct{}{}, nil }
			if spindle.Current(r.Context()) != nil {
				spindle.Shield(r.Context(), func(ctx context.Context) error {
					_, err := spindle.Blocking(ctx, wait)
					return err
				})
			} else {
				wait()
			}
		case "/reads":
			_, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, err)
		}
	}
	cuts := []struct{ name, cut, want string }{
		{"body that is read", "POST /reads HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "200 unexpected EOF"},
		{"chunks that are read", "POST /reads HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "200 unexpected EOF"},
		{"body that is not read", "POST /leaves HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "200 "},
		{"chunks that are not read", "POST /leaves HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "200 "},
		{"lean, collected", "POST /collects HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", ""},
		{"lean, skipped", "POST /skips HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "200 "},
		{"head", "GET /reads HTTP/1.1\r\nHo", "400 400 Bad Request: http1: input ends within a message"},
		{"nothing", "", ""},
	}
	for name, s := range kinds(h) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){
			"/collects": func(c *web.LeanCtx) {
				c.ReadBody(100, func(*web.LeanCtx, []byte) { t.Error("a body that was cut off") })
			},
			"/skips": func(*web.LeanCtx) {},
			"/ping":  func(*web.LeanCtx) {},
		})
		for _, secured := range []*tls.Config{nil, trust} {
			s := &web.Server{Handler: s.Handler, Lean: s.Lean}
			if secured != nil {
				s.TLS = server
			}
			t.Run(fmt.Sprintf("%s, tls %v", name, secured != nil), func(t *testing.T) {
				sv := serve(t, s)
				other := dialHalf(t, sv, secured)
				others := bufio.NewReader(other)
				for _, tt := range cuts {
					c := dialHalf(t, sv, secured)
					io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"+tt.cut)
					c.CloseWrite()
					for range 3 { // the server has received the end when it answers what came behind
						io.WriteString(other, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
						response(t, others, "GET")
					}
					goOn <- true
					br := bufio.NewReader(c)
					response(t, br, "GET")
					if got := rest(t, br); got != tt.want {
						t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
					}
				}
			})
		}
	}
}

// TestContextEndsWithTheHandler checks that contexts derived from the request's end when the
// handler returns.
func TestContextEndsWithTheHandler(t *testing.T) {
	kept := make(chan context.Context, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil {
			t.Errorf("it has ended before: %v", r.Context().Err())
		}
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || a.String() != r.Host {
			t.Errorf("local address %v", a)
		}
		ctx, cancel := context.WithCancel(r.Context())
		t.Cleanup(cancel)
		kept <- ctx
	}) {
		t.Run(name, func(t *testing.T) {
			get(t, client(t), url(serve(t, s), "/"))
			ctx := <-kept
			<-ctx.Done()
			if ctx.Err() != context.Canceled {
				t.Errorf("got %v", ctx.Err())
			}
		})
	}
}
