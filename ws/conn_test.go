package ws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/ws"
)

// pair is two Conns that talk to each other, in tasks of one loop.
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

// both has two functions run at once.
func both(ctx context.Context, a, b func(ctx context.Context) error) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(a)
		n.Go(b)
		return nil
	})
}

// TestConnClose: from one side and from both at once; and what follows fails.
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

// TestCloseWhileSomebodyReads: the reader finishes what Close has begun, also one that
// has just got a message and never reads again.
func TestCloseWhileSomebodyReads(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { // reads, and closes with it
				_, _, err := client.Read(ctx)
				if ws.CodeOf(err) != 4005 {
					return fmt.Errorf("the reader: %w", err)
				}
				if _, err := client.NetConn().Write(nil); !errors.Is(err, net.ErrClosed) {
					return fmt.Errorf("the connection is open: %w", err)
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

// TestAMessageAfterClose is not handed over: Read goes on to the peer's Close.
func TestAMessageAfterClose(t *testing.T) {
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

// TestReadIsCancelledAndGoesOn: a message that has come in part is not lost.
func TestReadIsCancelledAndGoesOn(t *testing.T) {
	for _, how := range []string{"by a scope", "by a context", "by a context, and a Reader goes on"} {
		t.Run(how, func(t *testing.T) {
			pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
				w, err := client.Writer(ctx, ws.Text)
				if err != nil {
					return err
				}
				half := []byte(large(20 << 10)) // a frame goes out, and some is held
				if _, err := w.Write(half); err != nil {
					return err
				}
				if how == "by a scope" {
					expired, err := spindle.MoveOnAfter(ctx, 20*time.Millisecond, func(ctx context.Context) error {
						_, _, err := server.Read(ctx)
						return err
					})
					if !expired || err != nil {
						return fmt.Errorf("expired %v, %w", expired, err)
					}
				} else {
					short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
					defer cancel()
					if _, _, err := server.Read(short); !errors.Is(err, context.DeadlineExceeded) {
						return fmt.Errorf("cancelled with %w", err)
					}
				}
				if _, err := w.Write(half); err != nil {
					return err
				}
				if err := w.Close(); err != nil {
					return err
				}
				var message []byte
				if strings.HasSuffix(how, "goes on") {
					var r io.Reader
					if _, r, err = server.Reader(ctx); err == nil {
						message, err = io.ReadAll(r)
					}
				} else {
					_, message, err = server.Read(ctx)
				}
				if want := string(half) + string(half); string(message) != want {
					return fmt.Errorf("%d bytes, want %d; %w", len(message), len(want), err)
				}
				return nil
			})
		})
	}
}

// TestAContextThatEndedBefore ends calls, and leaves the connection as it was.
func TestAContextThatEndedBefore(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := client.Write(gone, ws.Text, []byte("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("Write: %v", err)
		}
		if _, _, err := client.Read(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("Read: %v", err)
		}
		if err := client.Write(ctx, ws.Text, []byte("y")); err != nil {
			return err
		}
		if _, message, err := server.Read(ctx); err != nil || string(message) != "y" {
			t.Errorf("%q, %v", message, err)
		}
		return nil
	})
}

// TestAWriteThatIsCutEndsTheConnection: nothing could follow it.
func TestAWriteThatIsCutEndsTheConnection(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		short, cancel := context.WithCancel(ctx)
		return both(ctx, func(ctx context.Context) error {
			if err := client.Write(short, ws.Binary, make([]byte, 16<<20)); !errors.Is(err, context.Canceled) {
				t.Errorf("Write: %v", err)
			}
			if err := client.Write(ctx, ws.Binary, nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write after it: %v", err)
			}
			return nil
		}, func(ctx context.Context) error {
			defer cancel()
			for !waits(ctx, "Conn.Write") { // some has gone out then, and no more fits
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// waits tells whether a task waits for something.
func waits(ctx context.Context, what string) bool {
	for _, task := range spindle.TreeOf(ctx) {
		if task.State == "waiting" && task.WaitsFor == what {
			return true
		}
	}
	return false
}
