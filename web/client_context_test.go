package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// TestTransportWithoutATaskFails: http.Get has no task's context to give. That is an
// error which names the remedy, on a goroutine and in a task, and closes the body.
func TestTransportWithoutATaskFails(t *testing.T) {
	c := &http.Client{Transport: &web.Transport{}}
	post := func() {
		t.Helper()
		body := &closeCounter{Reader: strings.NewReader("hello")}
		res, err := c.Post("http://127.0.0.1:1/", "text/plain", body)
		if !errors.Is(err, spindle.ErrNoTask) || !strings.Contains(err.Error(), "Context") {
			t.Errorf("%v, %v", res, err)
		}
		if n := body.closed.Load(); n != 1 {
			t.Errorf("body closed %d times", n)
		}
	}
	post()
	tasks(t, func(context.Context) { post() })
}

// TestTransportClosesTheBodyAfterItsRun: a request in a run that has ended fails, and its
// body is closed.
func TestTransportClosesTheBodyAfterItsRun(t *testing.T) {
	transport := &web.Transport{}
	tasks(t, func(ctx context.Context) { transport.Context = ctx })
	body := &closeCounter{Reader: strings.NewReader("hello")}
	res, err := (&http.Client{Transport: transport}).Post("http://127.0.0.1:1/", "text/plain", body)
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, %v", res, err)
	}
	if n := body.closed.Load(); n != 1 {
		t.Errorf("body closed %d times", n)
	}
}

// TestTransportOfAGoroutineFailsWithTheCause: a goroutine is in no scope, even if it uses the
// context of a task.
func TestTransportOfAGoroutineFailsWithTheCause(t *testing.T) {
	cause := errors.New("on purpose")
	for name, before := range map[string]bool{"before the request": true, "during the request": false} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan bool, 1)
			both(t, func(w http.ResponseWriter, r *http.Request) {
				asked <- true
				<-r.Context().Done()
			}, func(t *testing.T, base string) {
				tasks(t, func(ctx context.Context) {
					spindle.WithScope(ctx, func(inner context.Context, s *spindle.Scope) error {
						l := spindle.LoopOf(ctx)
						cancel := func() (int, error) { s.Cancel(cause); return 0, nil }
						_, err := spindle.Blocking(ctx, func() (int, error) {
							if before {
								spindle.CallOn(ctx, l, func(context.Context) (int, error) { return cancel() })
							} else {
								go func() {
									<-asked
									l.Post(func() { cancel() })
								}()
							}
							_, _, err := do(inner, &http.Client{Transport: &web.Transport{}}, "GET", base, nil)
							return 0, err
						})
						if !errors.Is(err, cause) {
							t.Errorf("got %v", err)
						}
						return nil
					})
				})
			})
		})
	}
}

// TestTransportDoesNotSendACancelledRequest, whether its connection would be new or kept.
func TestTransportDoesNotSendACancelledRequest(t *testing.T) {
	var served atomic.Int64
	both(t, func(http.ResponseWriter, *http.Request) { served.Add(1) }, func(t *testing.T, base string) {
		tasks(t, func(ctx context.Context) {
			transport := &web.Transport{Context: ctx}
			defer transport.CloseIdleConnections()
			c := &http.Client{Transport: transport}
			ended, cancel := context.WithCancelCause(context.Background())
			cancel(errEnough)
			try := func(where string) {
				before := served.Load()
				for range 50 {
					if _, _, err := do(ended, c, "GET", base, nil); !errors.Is(err, errEnough) {
						t.Errorf("%s: %v", where, err)
					}
				}
				if n := served.Load() - before; n != 0 {
					t.Errorf("%s: %d requests were served", where, n)
				}
			}
			try("in a task")
			if _, _, err := do(ctx, c, "GET", base, nil); err != nil {
				t.Error(err)
			}
			try("in a task, with a kept connection")
			spindle.Blocking(ctx, func() (int, error) { try("on a goroutine"); return 0, nil })
		})
	})
}

// TestIdleConnectionDoesNotRetainItsLastRequest: a request, with its context and body,
// can be collected while its connection waits for the next.
func TestIdleConnectionDoesNotRetainItsLastRequest(t *testing.T) {
	for i, c := range []struct{ name, method, path, body string }{
		{"without a body", "GET", "/plain", ""},
		{"with a small body", "POST", "/echo", "hello"},
		{"with a large body", "POST", "/echo", strings.Repeat("x", 1<<20)},
		{"with a gzipped answer", "GET", "/gzip", ""},
		{"with an empty answer", "POST", "/empty", "hello"},
	} {
		if testing.Short() && i%2 == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			both(t, everything, func(t *testing.T, base string) {
				tasks(t, func(ctx context.Context) {
					transport := &web.Transport{Context: ctx}
					defer transport.CloseIdleConnections()
					request := func(ctx context.Context) <-chan bool {
						req, err := http.NewRequestWithContext(ctx, c.method, base+c.path, strings.NewReader(c.body))
						if err != nil {
							t.Error(err)
							return nil
						}
						res, err := transport.RoundTrip(req)
						if err != nil {
							t.Error(err)
							return nil
						}
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
						collected := make(chan bool)
						runtime.AddCleanup(req, func(ch chan bool) { close(ch) }, collected)
						return collected
					}
					alive, cancel := context.WithCancel(context.Background())
					defer cancel()
					isCollected(t, ctx, "in a task", request(ctx))
					isCollected(t, ctx, "in a task, a context that goes on", request(alive))
					isCollected(t, ctx, "in a task, another context", request(context.Background()))
					collected, _ := spindle.Blocking(ctx, func() (<-chan bool, error) {
						return request(alive), nil
					})
					isCollected(t, ctx, "on a goroutine", collected)
				})
			})
		})
	}
}

func isCollected(t *testing.T, ctx context.Context, where string, collected <-chan bool) {
	t.Helper()
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			return
		default:
		}
		spindle.Sleep(ctx, 2*time.Millisecond)
	}
	t.Errorf("%s: the request is still reachable", where)
}

// closeCounter is a body that counts how often it was closed.
type closeCounter struct {
	io.Reader
	closed atomic.Int64
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

// TestTransportClosesABodyOnce, as http.Transport does, however the request goes.
func TestTransportClosesABodyOnce(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			io.Copy(io.Discard, r.Body)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	}))
	defer s.Close()
	for _, c := range []struct {
		name, url string
		length    int64
		body      func() io.Reader
	}{
		{"small", s.URL + "/read", 5, func() io.Reader { return strings.NewReader("hello") }},
		{"large", s.URL + "/read", 1 << 20, func() io.Reader { return strings.NewReader(strings.Repeat("x", 1<<20)) }},
		{"chunked", s.URL + "/read", -1, func() io.Reader { return strings.NewReader("hello") }},
		{"too short", s.URL + "/read", 10, func() io.Reader { return strings.NewReader("hello") }},
		{"too long", s.URL + "/read", 3, func() io.Reader { return strings.NewReader("hello") }},
		{"not read", s.URL + "/", 1 << 20, func() io.Reader { return strings.NewReader(strings.Repeat("x", 1<<20)) }},
		{"cut off", s.URL + "/cut", 1 << 20, func() io.Reader { return strings.NewReader(strings.Repeat("x", 1<<20)) }},
		{"failing", s.URL + "/read", 10, func() io.Reader { return failingReader{errEnough} }},
		{"no such scheme", "ftp://a/", 5, func() io.Reader { return strings.NewReader("hello") }},
		{"refused", "http://127.0.0.1:1/", 5, func() io.Reader { return strings.NewReader("hello") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := &closeCounter{Reader: c.body()}
			tasks(t, func(ctx context.Context) {
				transport := &web.Transport{}
				defer transport.CloseIdleConnections()
				req, err := http.NewRequestWithContext(ctx, "POST", c.url, body)
				if err != nil {
					t.Fatal(err)
				}
				req.ContentLength = c.length
				if res, err := transport.RoundTrip(req); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			})
			if n := body.closed.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		})
	}
}

// TestTransportSendsOneUserAgent, the first of several, as http.Transport does.
func TestTransportSendsOneUserAgent(t *testing.T) {
	both(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["User-Agent"]) }, func(t *testing.T, base string) {
		tasks(t, func(ctx context.Context) {
			transport := &web.Transport{}
			defer transport.CloseIdleConnections()
			c := &http.Client{Transport: transport}
			if _, got, err := do(ctx, c, "GET", base, nil, "User-Agent", "one", "User-Agent", "two"); got != "[one]" || err != nil {
				t.Errorf("%s, %v", got, err)
			}
		})
	})
}
