package stream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/stream"
)

type handler = func(ctx context.Context, c *stream.Conn) error

func echo(_ context.Context, c *stream.Conn) error {
	_, err := io.Copy(c, c)
	return err
}

// served runs a server and a client and returns Serve's error.
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
		until.InTask(ctx, t, func() bool { return serving != nil })
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

// TestServeUntilCancelled checks that handlers are cancelled with the server and
// that their connections are closed.
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
			until.InTask(ctx, t, func() bool { return handlers == 1 })
			stop.Cancel(nil)
			_, err := b.Read(make([]byte, 1))
			want(t, "Read", err, io.EOF)
		})
		want(t, "Serve", err, context.Canceled)
		if handlers != 0 {
			t.Errorf("%d handlers still run", handlers)
		}
	})
}

// TestServeUntilClosed checks that handlers run to their end after the listener is
// closed.
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
			until.InTask(ctx, t, func() bool { return ended })
		})
		want(t, "Serve", err, net.ErrClosed)
	})
}

// TestServeDrains checks that a cancelled server accepts no more, and that its handlers
// continue.
func TestServeDrains(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		end := errors.New("the handler has not returned")
		err := served(t, ctx, stream.ServeConfig{Drain: time.Hour}, func(ctx context.Context, c *stream.Conn) error {
			_, end = io.Copy(c, c)
			return end
		}, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			c := dial(t, ctx, ln)
			ask(t, c)
			stop.Cancel(nil)
			until.InTask(ctx, t, func() bool { _, err := stream.Dial(ctx, "tcp", ln.Addr().String()); return err != nil })
			ask(t, c)
			c.Close()
		})
		want(t, "Serve", err, context.Canceled)
		check(t, end)
	})
}

// TestServeCancelsHandlersAfterDrain checks that handlers that exceed Drain are cancelled.
func TestServeCancelsHandlersAfterDrain(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		var end error
		err := served(t, ctx, stream.ServeConfig{Drain: 30 * time.Millisecond}, func(ctx context.Context, c *stream.Conn) error {
			_, end = io.Copy(c, c)
			return end
		}, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			c := dial(t, ctx, ln)
			ask(t, c)
			stop.Cancel(nil)
			_, err := c.Read(make([]byte, 1))
			want(t, "Read", err, io.EOF)
		})
		want(t, "Serve", err, context.Canceled)
		want(t, "the handler", end, context.DeadlineExceeded)
	})
}

// TestServeDrainsWhenCancelledAfterClose checks that Drain begins with the cancellation,
// not when the listener is closed.
func TestServeDrainsWhenCancelledAfterClose(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		var end error
		err := served(t, ctx, stream.ServeConfig{Drain: time.Nanosecond}, func(ctx context.Context, c *stream.Conn) error {
			_, end = io.Copy(c, c)
			return end
		}, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			c := dial(t, ctx, ln)
			ask(t, c)
			check(t, ln.Close())
			for range 3 { // several turns of the loop
				ask(t, c)
			}
			stop.Cancel(nil)
			_, err := c.Read(make([]byte, 1))
			want(t, "Read", err, io.EOF)
		})
		want(t, "Serve", err, net.ErrClosed)
		want(t, "the handler", end, context.DeadlineExceeded)
	})
}

// TestServeMaxConns checks that further connections wait for a free slot.
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

// closedOnEach connects n times, one after the other, and waits for the end of each.
func closedOnEach(t *testing.T, n int) func(context.Context, *stream.Listener, *spindle.Scope) {
	return func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
		for range n {
			c := dial(t, ctx, ln)
			_, err := c.Read(make([]byte, 1))
			want(t, "Read", err, io.EOF)
		}
	}
}

// TestServeContinuesAfterHandlerFails: errors that a peer can cause are dropped, any
// other is logged with the peer's address. Neither ends the server.
func TestServeContinuesAfterHandlerFails(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		failures := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, bufio.ErrTooLong,
			fmt.Errorf("wrapped: %w", &net.OpError{Op: "read", Err: errors.New("reset")}),
			errors.New("no such account"), &spindle.Canceled{}}
		n := len(failures)
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		err := served(t, ctx, stream.ServeConfig{ErrorLog: logger}, func(context.Context, *stream.Conn) error {
			err := failures[0]
			failures = failures[1:]
			return err
		}, closedOnEach(t, n))
		want(t, "Serve", err, context.Canceled)
		if len(failures) > 0 {
			t.Errorf("%d connections were not served", len(failures))
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], `err="no such account"`) ||
			!strings.Contains(lines[0], "remote=127.0.0.1:") {
			t.Errorf("the log is\n%s", &log)
		}
	})
}

// TestServeOnErrorDecides checks that OnError gets every error and that an error it
// returns ends the server.
func TestServeOnErrorDecides(t *testing.T) {
	harmless, broken := errors.New("harmless"), errors.New("broken")
	on(t, func(t *testing.T, ctx context.Context) {
		var reported []error
		sc := stream.ServeConfig{OnError: func(c *stream.Conn, err error) error {
			if c == nil || c.RemoteAddr() == nil {
				t.Error("which connection?")
			}
			reported = append(reported, err)
			if err == broken {
				return fmt.Errorf("ended: %w", err)
			}
			return nil
		}}
		errs := []error{io.EOF, harmless, broken}
		err := served(t, ctx, sc, func(context.Context, *stream.Conn) error {
			err := errs[len(reported)]
			return err
		}, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			closedOnEach(t, len(errs))(ctx, ln, stop)
			until.InTask(ctx, t, func() bool { return len(waiters(ctx, "Listener.Accept")) == 0 })
		})
		if !slices.Equal(reported, errs) || !errors.Is(err, broken) || err.Error() != "ended: broken" {
			t.Errorf("OnError got %v, Serve returned %v", reported, err)
		}
	})
}

// TestServeContinuesAfterHandlerPanics checks that the panic is logged with a
// readable stack and that other handlers continue.
func TestServeContinuesAfterHandlerPanics(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		var log lastMessage
		handlers := 0
		panics := func(ctx context.Context, c *stream.Conn) error {
			if handlers++; handlers == 2 {
				panic("no")
			}
			return echo(ctx, c)
		}
		err := served(t, ctx, stream.ServeConfig{ErrorLog: slog.New(&log)}, panics, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
			a := dial(t, ctx, ln)
			ask(t, a)
			closedOnEach(t, 1)(ctx, ln, stop)
			ask(t, a)
			b := dial(t, ctx, ln)
			ask(t, b)
		})
		want(t, "Serve", err, context.Canceled)
		if !strings.HasPrefix(log.text, "stream: handler panicked: no\n") || !strings.Contains(log.text, "\n\t") || !strings.Contains(log.text, "serve_test.go:") {
			t.Errorf("the log is %q", log.text)
		}

	})
}

// TestServePanicsIfOnErrorReturnsThePanic checks that the other handlers are
// cancelled and every connection is closed.
func TestServePanicsIfOnErrorReturnsThePanic(t *testing.T) {
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
			stream.ServeConfig{OnError: func(_ *stream.Conn, err error) error { return err }}.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
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

// lastMessage is a slog.Handler that keeps the text of the last record.
type lastMessage struct{ text string }

func (m *lastMessage) Enabled(context.Context, slog.Level) bool { return true }
func (m *lastMessage) Handle(_ context.Context, r slog.Record) error {
	m.text = r.Message
	return nil
}
func (m *lastMessage) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m *lastMessage) WithGroup(string) slog.Handler      { return m }

// TestServeDrainsTheBacklog checks that connections that were queued when the server was
// cancelled are served, even if they have to wait for others.
func TestServeDrainsTheBacklog(t *testing.T) {
	const peers = 3*64 + 5 // more than a listener accepts ahead
	for name, conns := range map[string]int{"no limit": 0, "one at a time": 1} {
		t.Run(name, func(t *testing.T) {
			onReal(t, func(t *testing.T, ctx context.Context) {
				err := served(t, ctx, stream.ServeConfig{Drain: time.Hour, MaxConns: conns}, echo, func(ctx context.Context, ln *stream.Listener, stop *spindle.Scope) {
					var queued []net.Conn
					for range peers { // the loop accepts none of them meanwhile
						c, err := net.Dial("tcp", ln.Addr().String())
						if err != nil {
							t.Error(err)
							return
						}
						queued = append(queued, c)
					}
					stop.Cancel(nil)
					until.InTask(ctx, t, func() bool {
						c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
						if err == nil {
							c.Close() // it is queued, and served as the others are
						}
						return err != nil
					})
					_, err := spindle.Blocking(ctx, func() (int, error) { return 0, askAll(queued) })
					check(t, err)
				})
				want(t, "Serve", err, context.Canceled)
			})
		})
	}
}

// askAll sends a line on each connection, waits for its echo and closes it.
func askAll(conns []net.Conn) error {
	var failed []error
	for i, c := range conns {
		c.SetDeadline(time.Now().Add(time.Minute))
		got := make([]byte, 5)
		_, err := c.Write([]byte("hello"))
		if err == nil {
			_, err = io.ReadFull(c, got)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("connection %d: %w", i, err))
		}
		c.Close()
	}
	return errors.Join(failed...)
}
