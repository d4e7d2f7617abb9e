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
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// TestTransportManyTasks on one loop wait for one server at once: it answers none
// before all have asked.
func TestTransportManyTasks(t *testing.T) {
	const many = 200
	var all sync.WaitGroup
	all.Add(many)
	s, conns := counted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			all.Done()
			all.Wait()
		}
		fmt.Fprint(w, r.URL.RawQuery)
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{MaxIdlePerHost: many, MaxIdle: many}}
		for _, path := range []string{"/first", "/second"} {
			if err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for i := range many {
					n.Go(func(ctx context.Context) error {
						_, got, err := do(ctx, c, "GET", fmt.Sprint(s.URL, path, "?", i), nil)
						if err == nil && got != fmt.Sprint(i) {
							err = fmt.Errorf("%d got %q", i, got)
						}
						return err
					})
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			idle(t, ctx, many)
		}
		if n := conns.Load(); n != many {
			t.Errorf("%d connections", n)
		}
	})
}

// TestTransportFromGoroutines: with contexts of tasks, or with a Client that knows one.
func TestTransportFromGoroutines(t *testing.T) {
	t.Parallel()
	both(t, everything, func(t *testing.T, base string) {
		tasks(t, func(ctx context.Context) {
			own := &http.Client{Transport: &web.Transport{}}
			known := &http.Client{Transport: &web.Transport{Context: ctx}}
			if _, err := spindle.Blocking(ctx, func() (int, error) {
				var all sync.WaitGroup
				for i := range short.Of(20) {
					all.Go(func() {
						c, at := own, ctx
						if i%2 == 1 {
							c, at = known, context.Background()
						}
						r, w := io.Pipe() // a body that blocks
						go func() {
							io.WriteString(w, strings.Repeat("x", 100_000))
							w.Close()
						}()
						if _, got, err := do(at, c, "POST", base+"/echo", r); !strings.HasPrefix(got, "100000 <nil>") || err != nil {
							t.Errorf("%q, %v", got, err)
						}
						if _, got, err := do(at, c, "GET", base+"/long", nil); got != string(block(1<<20)) || err != nil {
							t.Errorf("%d bytes, %v", len(got), err)
						}
					})
				}
				all.Wait()
				return 0, nil
			}); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestTransportCancelled: while it connects, waits for the header, or for the body; by a
// scope, a context, http.Client's time-out; in a task and elsewhere.
func TestTransportCancelled(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if req.URL.Path == "/body" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		}
		io.Copy(io.Discard, br)
		c.Close()
	})
	why := errors.New("enough")
	for _, path := range []string{"/header", "/body"} {
		t.Run(path[1:], func(t *testing.T) {
			tasks(t, func(ctx context.Context) {
				c := &http.Client{Transport: &web.Transport{}}
				late, err := spindle.MoveOnAfter(ctx, 5*time.Millisecond, func(ctx context.Context) error {
					_, _, err := do(ctx, c, "GET", base+path, nil)
					return err
				})
				if !late || err != nil {
					t.Errorf("scope: %v, %v", late, err)
				}
				derived := func(in context.Context) error {
					ctx, cancel := context.WithCancelCause(in)
					stop := spindle.LoopOf(ctx).Post // from any goroutine
					stop(func() { spindle.LoopOf(ctx).CallLater(5*time.Millisecond, func() { cancel(why) }) })
					_, _, err := do(ctx, c, "GET", base+path, nil)
					return err
				}
				if err := derived(ctx); !errors.Is(err, why) {
					t.Errorf("context: %v", err)
				}
				if _, err := spindle.Blocking(ctx, func() (int, error) { return 0, derived(ctx) }); !errors.Is(err, why) {
					t.Errorf("context of a goroutine: %v", err)
				}
				impatient := &http.Client{Transport: c.Transport, Timeout: 5 * time.Millisecond}
				var timeout net.Error
				if _, _, err := do(ctx, impatient, "GET", base+path, nil); !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("http.Client's time-out: %v", err)
				}
			})
		})
	}
}

// TestTransportEndsWithTheRun: requests that wait on goroutines fail, and nothing stays open.
func TestTransportEndsWithTheRun(t *testing.T) {
	received, answered := make(chan bool), make(chan error, 1)
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		hear(br)
		received <- true
		io.Copy(io.Discard, br)
		c.Close()
	})
	var after context.Context
	ours := &web.Transport{}
	c := &http.Client{Transport: ours}
	tasks(t, func(ctx context.Context) {
		after = ctx
		go func() {
			_, _, err := do(ctx, c, "GET", base, nil)
			answered <- err
		}()
		spindle.Blocking(ctx, func() (bool, error) { return <-received, nil })
	})
	if err := <-answered; err == nil {
		t.Error("an answer after the end")
	}
	if _, _, err := do(after, c, "GET", base, nil); err == nil {
		t.Error("a request after the end")
	}
	forgotten(t, func() bool { return ours.Runs() == 0 })
}

// forgotten waits until runs that have ended are forgotten. The collector runs meanwhile.
func forgotten(t *testing.T, are func() bool) {
	t.Helper()
	for began := time.Now(); ; {
		runtime.GC()
		if are() {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("runs that have ended are kept")
		}
	}
}

// TestTransportForgetsRuns: a run that leaves the body of a response open is not kept, nor is
// its loop.
func TestTransportForgetsRuns(t *testing.T) {
	ours := &web.Transport{}
	both(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, func(t *testing.T, base string) {
		var kept []weak.Pointer[loop.Loop]
		for range 3 {
			tasks(t, func(ctx context.Context) {
				req, err := http.NewRequestWithContext(ctx, "GET", base, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := ours.RoundTrip(req); err != nil {
					t.Error(err)
				}
				kept = append(kept, weak.Make(spindle.LoopOf(ctx)))
			})
		}
		forgotten(t, func() bool {
			return ours.Runs() == 0 && !slices.ContainsFunc(kept, func(l weak.Pointer[loop.Loop]) bool { return l.Value() != nil })
		})
	})
}

// TestTransportIdleLimits: no more are kept than may be, nor for longer; and those that
// are can be closed.
func TestTransportIdleLimits(t *testing.T) {
	t.Parallel()
	s, _ := counted(t, everything)
	for name, tc := range map[string]struct {
		c    *web.Transport
		kept int
	}{
		"as it is": {&web.Transport{}, 8},
		"fewer":    {&web.Transport{MaxIdlePerHost: 2}, 2},
		"in all":   {&web.Transport{MaxIdle: 3}, 3},
		"none":     {&web.Transport{MaxIdlePerHost: -1}, 0},
		"briefly":  {&web.Transport{IdleTimeout: time.Millisecond}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tasks(t, func(ctx context.Context) {
				c := &http.Client{Transport: tc.c}
				if err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					for range 12 { // at once
						n.Go(func(ctx context.Context) error { _, _, err := do(ctx, c, "GET", s.URL+"/long", nil); return err })
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				idle(t, ctx, tc.kept)
				c.CloseIdleConnections()
				idle(t, ctx, 0)
			})
		})
	}
}

// TestTransportTLS: with a certificate that is trusted, and with one that is not.
func TestTransportTLS(t *testing.T) {
	config, trust := certified(t)
	sv := serve(t, &web.Server{TLS: config, Handler: http.HandlerFunc(everything)})
	base := "https://" + sv.Addr().String()
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{TLS: trust}}
		for range 3 {
			res, got, err := do(ctx, c, "POST", base+"/echo", strings.NewReader(strings.Repeat("x", 200_000)))
			if err != nil || !strings.HasPrefix(got, "200000 <nil>") || res.TLS == nil || res.TLS.NegotiatedProtocol != "h2" {
				t.Fatalf("%q, %v", got, err)
			}
		}
		var wrong *tls.CertificateVerificationError
		if _, _, err := do(ctx, &http.Client{Transport: &web.Transport{}}, "GET", base, nil); !errors.As(err, &wrong) {
			t.Errorf("a stranger's certificate: %v", err)
		}
	})
}

// TestTransportDial: connections may come from elsewhere, as from a Unix socket.
func TestTransportDial(t *testing.T) {
	tasks(t, func(ctx context.Context) {
		path := t.TempDir() + "/s"
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(everything)}
		go server.Serve(ln)
		defer server.Close()
		c := &http.Client{Transport: &web.Transport{Dial: func(ctx context.Context, _, _ string) (*stream.Conn, error) {
			return stream.Dial(ctx, "unix", path)
		}}}
		if _, got, err := do(ctx, c, "GET", "http://anything/plain", nil); got != "GET " || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		c = &http.Client{Transport: &web.Transport{Dial: func(ctx context.Context, _, _ string) (*stream.Conn, error) {
			return nil, spindle.Sleep(ctx, time.Hour)
		}, DialTimeout: time.Millisecond}}
		var timeout net.Error
		if _, _, err := do(ctx, c, "GET", "http://anything/plain", nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v", err)
		}
	})
}

// TestTransportDialsAnAddressWithAZone: the zone is for the dial alone. Host and the
// target of CONNECT do not have it.
func TestTransportDialsAnAddressWithAZone(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway) // not a tunnel
		io.WriteString(w, r.Host+" "+r.RequestURI)
	}))
	defer s.Close()
	tasks(t, func(ctx context.Context) {
		dialed := ""
		c := &http.Client{Transport: &web.Transport{Dial: func(ctx context.Context, network, address string) (*stream.Conn, error) {
			dialed = address
			return stream.Dial(ctx, network, s.Listener.Addr().String())
		}}}
		for method, want := range map[string]string{"GET": "[fe80::1]:8080 /", "CONNECT": "[fe80::1]:8080 [fe80::1]:8080"} {
			_, got, err := do(ctx, c, method, "http://[fe80::1%25eth0]:8080", nil)
			if got != want || err != nil || dialed != "[fe80::1%eth0]:8080" {
				t.Errorf("%s: dialed %q, got %q, %v", method, dialed, got, err)
			}
			c.CloseIdleConnections()
		}
	})
}
