package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

// TestDialWithoutTask checks that a library that dials with a context of its own
// gets an error with advice, not a panic in one of its goroutines.
func TestDialWithoutTask(t *testing.T) {
	for name, dial := range map[string]func(context.Context) (net.Conn, error){
		"DialContext": func(ctx context.Context) (net.Conn, error) {
			return stream.Dialer{}.DialContext(ctx, "tcp", "127.0.0.1:1")
		},
		"TLS.Dial": func(ctx context.Context) (net.Conn, error) {
			return stream.TLS{}.Dial(ctx, "tcp", "127.0.0.1:1")
		},
		"Dial": func(ctx context.Context) (net.Conn, error) {
			c, err := stream.Dial(ctx, "tcp", "127.0.0.1:1")
			return c, err
		},
		"a Dialer with a Context that is not a task's": func(ctx context.Context) (net.Conn, error) {
			return stream.Dialer{Context: ctx}.DialContext(ctx, "tcp", "127.0.0.1:1")
		},
	} {
		var op *net.OpError
		if _, err := dial(t.Context()); !errors.Is(err, spindle.ErrNoTask) || !errors.As(err, &op) || op.Op != "dial" || !strings.Contains(err.Error(), "set Context of the stream.Dialer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDialerContext checks that a Dialer with a Context connects for any caller, in
// the run that the Context comes from.
func TestDialerContext(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		d := stream.Dialer{Context: ctx}
		greet := func(ctx context.Context) error {
			c, err := d.Dial(ctx, "tcp", ln.Addr().String())
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = io.WriteString(c, "hello")
			return err
		}
		canEnd, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, theirs := range []context.Context{context.Background(), canEnd, ctx} {
			for caller, call := range map[string]func(func() error) error{
				"a task":      func(fn func() error) error { return fn() },
				"a goroutine": func(fn func() error) error { return inGoroutine(ctx, fn) },
			} {
				if err := call(func() error { return greet(theirs) }); err != nil {
					t.Errorf("%s with %v: %v", caller, theirs, err)
				}
				c, err := ln.AcceptConn()
				check(t, err)
				if got, err := io.ReadAll(c); string(got) != "hello" {
					t.Errorf("%s: %q, %v", caller, got, err)
				}
				c.Close()
			}
		}
	})
}

// TestDialerContextEnds checks that the caller's context still ends the dial, before
// and during it, with its own cause.
func TestDialerContextEnds(t *testing.T) {
	address := unresponsiveAddr(t, "127.0.0.1")
	onReal(t, func(t *testing.T, ctx context.Context) {
		reason := errors.New("not any more")
		d := stream.Dialer{Context: ctx}
		for caller, call := range map[string]func(func() error) error{
			"a task":      func(fn func() error) error { return fn() },
			"a goroutine": func(fn func() error) error { return inGoroutine(ctx, fn) },
		} {
			ended, end := context.WithCancelCause(context.Background())
			end(reason)
			err := call(func() error { _, err := d.Dial(ended, "tcp", listen(t, ctx, "tcp").Addr().String()); return err })
			if !errors.Is(err, reason) {
				t.Errorf("%s with a context that has ended: %v", caller, err)
			}
			late, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
			err = call(func() error { _, err := d.Dial(late, "tcp", address); return err })
			stop()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s with a deadline: %v", caller, err)
			}
		}
	})
}

// TestDialerContextForNetHTTP: http.Transport dials on its own goroutines, and for
// requests with contexts that come from no task.
func TestDialerContextForNetHTTP(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })}
		plain, secured := listen(t, ctx, "tcp"), must(listenTLS(ctx, tlstest.Identity().Server))
		served := make(chan error, 2)
		for _, ln := range []net.Listener{plain, secured} {
			go func() { served <- server.Serve(ln) }()
		}
		d := stream.Dialer{Context: ctx}
		transport := &http.Transport{DialContext: d.DialContext, DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return stream.TLS{Config: tlstest.Identity().Client, Dialer: d}.Dial(ctx, network, address)
		}}
		for _, url := range []string{"http://" + plain.Addr().String(), "https://" + secured.Addr().String()} {
			check(t, inGoroutine(ctx, func() error {
				res, err := (&http.Client{Transport: transport}).Get(url)
				if err != nil {
					return err
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if string(body) != "hello" {
					t.Errorf("%s: %q", url, body)
				}
				return err
			}))
		}
		check(t, inGoroutine(ctx, func() error {
			transport.CloseIdleConnections()
			err := server.Shutdown(context.Background())
			<-served
			<-served
			return err
		}))
	})
}
