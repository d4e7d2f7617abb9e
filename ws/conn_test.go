package ws_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/ws"
)

// pair runs a test with two connected Conns, in tasks of one loop.
func pair(t *testing.T, o ws.Options, test func(ctx context.Context, client, server *ws.Conn) error) {
	t.Helper()
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			accepted := spindle.Spawn(n, func(ctx context.Context) (*ws.Conn, error) {
				nc, err := ln.AcceptConn()
				if err != nil {
					return nil, err
				}
				return ws.AcceptOn(nc, o)
			})
			client, err := ws.Dial(ctx, "ws://"+ln.Addr().String(), o)
			if err != nil {
				return err
			}
			server, err := accepted.Await(ctx)
			if err != nil {
				return err
			}
			defer client.CloseNow()
			defer server.CloseNow()
			return test(ctx, client, server)
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// both runs two functions at once.
func both(ctx context.Context, a, b func(ctx context.Context) error) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(a)
		n.Go(b)
		return nil
	})
}

// TestConnClose closes from one side and from both at once. Later calls fail.
func TestConnClose(t *testing.T) {
	for _, name := range []string{"client", "server", "both"} {
		t.Run(name, func(t *testing.T) {
			pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
				if name == "server" {
					client, server = server, client
				}
				other := func(ctx context.Context) error {
					if name == "both" {
						return server.Close(4002, "")
					}
					_, _, err := server.Read(ctx)
					if closed, ok := err.(*ws.CloseError); !ok || closed.Code != 4001 || closed.Reason != "bye" {
						return fmt.Errorf("the other side: %w", err)
					}
					return nil
				}
				if err := both(ctx, func(context.Context) error { return client.Close(4001, "bye") }, other); err != nil {
					return err
				}
				for _, c := range []*ws.Conn{client, server} {
					if err := c.Write(ctx, ws.Text, nil); !errors.Is(err, net.ErrClosed) {
						t.Errorf("Write: %v", err)
					}
					if _, err := c.Writer(ctx, ws.Text); !errors.Is(err, net.ErrClosed) {
						t.Errorf("Writer: %v", err)
					}
					if _, _, err := c.Read(ctx); ws.CodeOf(err)/10 != 400 {
						t.Errorf("Read: %v", err)
					}
					if err := c.Close(1000, ""); !errors.Is(err, net.ErrClosed) {
						t.Errorf("Close: %v", err)
					}
				}
				return nil
			})
		})
	}
}

// TestCloseDuringRead checks that the reader completes what Close has begun, even
// one that has just received a message and never reads again.
func TestCloseDuringRead(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { // reads, and completes the close
				_, _, err := client.Read(ctx)
				if ws.CodeOf(err) != 4005 {
					return fmt.Errorf("the reader: %w", err)
				}
				if _, err := client.NetConn().Write(nil); !errors.Is(err, net.ErrClosed) {
					return fmt.Errorf("the connection is still open: %w", err)
				}
				return nil
			})
			n.Go(func(ctx context.Context) error {
				_, _, err := server.Read(ctx)
				if ws.CodeOf(err) != 4005 {
					return fmt.Errorf("the other side: %w", err)
				}
				return nil
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			return client.Close(4005, "")
		})
	})
}

// TestCloseDuringACancelledRead checks that CloseTimeout holds if the context of the
// read, which is to receive the peer's Close, is done first.
func TestCloseDuringACancelledRead(t *testing.T) {
	for how, read := range map[string]func(ctx context.Context, c *ws.Conn) error{
		"Read":   func(ctx context.Context, c *ws.Conn) error { _, _, err := c.Read(ctx); return err },
		"Reader": func(ctx context.Context, c *ws.Conn) error { _, _, err := c.Reader(ctx); return err },
	} {
		t.Run(how, func(t *testing.T) {
			pair(t, ws.Options{CloseTimeout: 10 * time.Millisecond}, func(ctx context.Context, client, server *ws.Conn) error {
				short, cancel := context.WithCancel(ctx)
				defer cancel()
				return both(ctx, func(ctx context.Context) error {
					if err := read(short, client); !errors.Is(err, context.Canceled) {
						return fmt.Errorf("the reader: %w", err)
					}
					if _, err := client.NetConn().Write(nil); !errors.Is(err, net.ErrClosed) {
						return fmt.Errorf("the connection is still open: %w", err)
					}
					return nil
				}, func(ctx context.Context) error {
					for !waits(ctx, "Conn.Read") {
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					err := client.Close(4005, "") // the peer does not answer
					cancel()
					return err
				})
			})
		})
	}
}

// TestMessageAfterClose checks that Read skips the message and returns the peer's
// Close.
func TestMessageAfterClose(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, message, err := client.Read(ctx)
				if ws.CodeOf(err) != 4005 {
					return fmt.Errorf("the reader has %q, %w", message, err)
				}
				return nil
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if err := errors.Join(server.Write(ctx, ws.Text, []byte("late")), client.Close(4005, "")); err != nil {
				return err
			}
			if _, _, err := server.Read(ctx); ws.CodeOf(err) != 4005 {
				return fmt.Errorf("the other side: %w", err)
			}
			return nil
		})
	})
}
