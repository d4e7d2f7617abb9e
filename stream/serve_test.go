package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

type handler = func(ctx context.Context, c *stream.Conn) error

func echo(_ context.Context, c *stream.Conn) error {
	_, err := io.Copy(c, c)
	return err
}

// served runs a server and a client; it returns what Serve has.
func served(t *testing.T, ctx context.Context, sc stream.ServeConfig, h handler, client func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope)) (err error) {
	t.Helper()
	ln := listen(t, ctx, "tcp")
	together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
		var serving *spindle.Scope
		n.Go(func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				serving = s
				err = sc.Serve(ctx, ln, h)
				return nil
			})
		})
		until(t, ctx, func() bool { return serving != nil })
		client(ctx, ln, serving)
		serving.Cancel(nil)
	})
	want(t, "the listener is closed", ln.Close(), net.ErrClosed)
	return err
}

func dial(t *testing.T, ctx context.Context, ln *stream.Listener) *stream.Conn {
	t.Helper()
	c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
	check(t, err)
	return c
}

// ask sends a line and waits for its echo.
func ask(t *testing.T, c *stream.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	if got := receive(t, c, 5); string(got) != "hello" {
		t.Errorf("%q", got)
	}
}

// TestServeUntilCancelled: handlers are cancelled with the serving, and their
// connections closed.
func TestServeUntilCancelled(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		handlers := 0
		err := served(t, ctx, stream.ServeConfig{}, func(ctx context.Context, c *stream.Conn) error {
			handlers++
			defer func() { handlers-- }()
			return echo(ctx, c)
		}, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			a, b := dial(t, ctx, ln), dial(t, ctx, ln)
			ask(t, a)
			ask(t, b)
			a.Close()
			until(t, ctx, func() bool { return handlers == 1 })
			stop.Cancel(nil)
			_, err := b.Read(make([]byte, 1))
			want(t, "Read", err, io.EOF)
		})
		want(t, "Serve", err, context.Canceled)
		if handlers != 0 {
			t.Errorf("%d handlers are left", handlers)
		}
	})
}

// TestServeUntilClosed: with the listener closed the handlers go on to their ends.
func TestServeUntilClosed(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		ended := false
		err := served(t, ctx, stream.ServeConfig{}, func(ctx context.Context, c *stream.Conn) error {
			defer func() { ended = true }()
			return echo(ctx, c)
		}, func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
			c := dial(t, ctx, ln)
			ask(t, c)
			check(t, ln.Close())
			ask(t, c)
			c.Close()
			until(t, ctx, func() bool { return ended })
		})
		want(t, "Serve", err, net.ErrClosed)
	})
}

// TestServeDrains: cancelled, it accepts no more; handlers go on, and those that
// take longer than the drain are cancelled.
func TestServeDrains(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		ends := map[string]error{}
		err := served(t, ctx, stream.ServeConfig{Drain: 30 * time.Millisecond}, func(ctx context.Context, c *stream.Conn) error {
			name := string(receive(t, c, 5))
			c.Write([]byte("begun"))
			_, err := io.Copy(c, c)
			ends[name] = err
			return err
		}, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			swift, late := dial(t, ctx, ln), dial(t, ctx, ln)
			for c, name := range map[*stream.Conn]string{swift: "swift", late: "later"} {
				c.Write([]byte(name))
				receive(t, c, 5)
			}
			stop.Cancel(nil)
			until(t, ctx, func() bool { _, err := stream.Dial(ctx, "tcp", ln.Addr().String()); return err != nil })
			ask(t, swift) // it goes on
			swift.Close()
			_, err := late.Read(make([]byte, 1))
			want(t, "Read", err, io.EOF)
		})
		want(t, "Serve", err, context.Canceled)
		if err, ok := ends["swift"]; !ok || err != nil {
			t.Errorf("who ended within the drain: %v", err)
		}
		want(t, "who did not", ends["later"], context.DeadlineExceeded)
	})
}

// TestServeMaxConns: the next one waits until a place is free.
func TestServeMaxConns(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		now, most, all := 0, 0, 0
		served(t, ctx, stream.ServeConfig{MaxConns: 2}, func(ctx context.Context, c *stream.Conn) error {
			now++
			all++
			most = max(most, now)
			defer func() { now-- }()
			return echo(ctx, c)
		}, func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				for range 10 {
					n.Go(func(ctx context.Context) error {
						c := dial(t, ctx, ln)
						defer c.Close()
						ask(t, c)
						return nil
					})
				}
			})
		})
		if most != 2 || all != 10 {
			t.Errorf("%d at once, %d in all", most, all)
		}
	})
}

// TestServeHandlerErrors: those of a connection are its own; others end the
// serving, or are told to OnError.
func TestServeHandlerErrors(t *testing.T) {
	broken := errors.New("broken")
	on(t, func(t *testing.T, ctx context.Context) {
		own := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, &stream.LimitError{Limit: 1}, fmt.Errorf("wrapped: %w", &net.OpError{Op: "read", Err: errors.New("reset")})}
		one := func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
			for range own {
				c := dial(t, ctx, ln)
				_, err := c.Read(make([]byte, 1))
				want(t, "Read", err, io.EOF)
			}
		}
		left := own
		err := served(t, ctx, stream.ServeConfig{}, func(context.Context, *stream.Conn) error {
			err := left[0]
			left = left[1:]
			return err
		}, one)
		want(t, "errors of connections", err, context.Canceled)

		err = served(t, ctx, stream.ServeConfig{}, func(context.Context, *stream.Conn) error { return broken },
			func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
				c := dial(t, ctx, ln)
				_, err := c.Read(make([]byte, 1))
				want(t, "Read", err, io.EOF)
				until(t, ctx, func() bool { return len(waiters(ctx, "Listener.Accept")) == 0 })
			})
		if err != broken {
			t.Errorf("an error that is not a connection's: %v", err)
		}

		var told []error
		err = served(t, ctx, stream.ServeConfig{OnError: func(c *stream.Conn, err error) {
			if c == nil {
				t.Error("which connection?")
			}
			told = append(told, err)
		}}, func(context.Context, *stream.Conn) error { return broken }, one)
		want(t, "with OnError", err, context.Canceled)
		if len(told) != len(own) || told[0] != broken {
			t.Errorf("told %v", told)
		}
	})
}

// TestServePanics: a handler that panics ends the serving with its panic; the
// others are cancelled, and every connection closed.
func TestServePanics(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		a, b := dial(t, ctx, ln), dial(t, ctx, ln)
		func() {
			defer func() {
				if p, ok := recover().(*spindle.PanicError); !ok || p.Value != "no" {
					t.Errorf("recovered %v", p)
				}
			}()
			handlers := 0
			stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				if handlers++; handlers == 2 {
					panic("no")
				}
				return echo(ctx, c)
			})
		}()
		for _, c := range []*stream.Conn{a, b} {
			_, err := c.Read(make([]byte, 1))
			want(t, "Read", err, io.EOF)
		}
		want(t, "Close", ln.Close(), net.ErrClosed)
	})
}
