package helpers_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

func TestMain(m *testing.M) { leak.Main(m) }

var authority = tlstest.NewAuthority()

func serverTLS() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{authority.Issue("127.0.0.1")}}
}

func clientTLS() *tls.Config { return &tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1"} }

// echo answers with the request's body, and needs it whole.
var echo = web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Write(body)
}))

// TestHelperTasksDoNotCount: everything works while the root nursery of the run is full.
func TestHelperTasksDoNotCount(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context) error{
		"Transport":                    func(ctx context.Context) error { return requests(ctx, false, post) },
		"Transport, streamed body":     func(ctx context.Context) error { return requests(ctx, false, postStream) },
		"Transport, https":             func(ctx context.Context) error { return requests(ctx, true, postStream) },
		"Transport, body left unread":  func(ctx context.Context) error { return requests(ctx, false, leaveBody) },
		"Transport, from a goroutine":  func(ctx context.Context) error { return requests(ctx, true, fromGoroutine) },
		"connections from a goroutine": dialFromGoroutine,
		"TLSConn":                      secured,
		"Cmd": func(ctx context.Context) error {
			cmd := proc.Command("cat")
			cmd.Stdin = strings.NewReader("x")
			out, err := cmd.Output(ctx)
			return expect(string(out), "x", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := spindle.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).SetLimit(1)
				return use(ctx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func expect(got, want string, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	return err
}

// requests makes three requests with one Transport, so that connections are kept.
func requests(ctx context.Context, secure bool, request func(ctx context.Context, c *http.Client, url string) error) error {
	server, scheme := &web.Server{Handler: echo}, "http://"
	if secure {
		server.TLS, scheme = serverTLS(), "https://"
	}
	sv, err := server.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	transport := &web.Transport{TLS: clientTLS()}
	for range 3 {
		err = errors.Join(err, request(ctx, &http.Client{Transport: transport}, scheme+sv.Addr().String()))
	}
	transport.CloseIdleConnections()
	return errors.Join(err, sv.Shutdown(ctx))
}

func do(ctx context.Context, c *http.Client, url string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, body)
	if err != nil {
		return nil, err
	}
	return c.Do(req)
}

func post(ctx context.Context, c *http.Client, url string) error {
	return whole(do(ctx, c, url, strings.NewReader(large)))
}

// large is more than a socket takes at once.
var large = strings.Repeat("x", 1<<20)

// postStream sends a body of unknown length.
func postStream(ctx context.Context, c *http.Client, url string) error {
	return whole(do(ctx, c, url, io.MultiReader(bytes.NewReader([]byte(large)))))
}

func whole(res *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return expect(string(got), large, err)
}

func leaveBody(ctx context.Context, c *http.Client, url string) error {
	res, err := do(ctx, c, url, strings.NewReader(large[:20<<10]))
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func fromGoroutine(ctx context.Context, c *http.Client, url string) error {
	_, err := spindle.Blocking(ctx, func() (int, error) { return 0, postStream(ctx, c, url) })
	return err
}

// dialFromGoroutine uses connections on a goroutine, which does so in tasks.
func dialFromGoroutine(ctx context.Context) error {
	ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	_, err = spindle.Blocking(ctx, func() (int, error) {
		c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return 0, err
		}
		defer c.Close()
		other, err := ln.Accept()
		if err != nil {
			return 0, err
		}
		defer other.Close()
		_, err = c.Write([]byte("x"))
		b := make([]byte, 1)
		n, e := other.Read(b)
		return n, expect(string(b), "x", errors.Join(err, e))
	})
	return err
}

// secured has one task read and write on a TLS connection, so that others flush.
func secured(ctx context.Context) error {
	plain, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer plain.Close()
	ln := stream.TLS{Config: serverTLS()}.Listener(plain)
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(context.Context) error {
			c, err := ln.Accept()
			if err != nil {
				return err
			}
			_, err = io.Copy(c, c)
			return errors.Join(err, c.Close())
		})
		c, err := stream.TLS{Config: clientTLS()}.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		n.Go(func(context.Context) error {
			_, err := c.Write([]byte(large))
			return errors.Join(err, c.CloseWrite())
		})
		got, err := io.ReadAll(c)
		return expect(string(got), large, errors.Join(err, c.Close()))
	})
}
