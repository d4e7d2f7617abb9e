package ws_test

import (
	"bytes"
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

// TestReadIsCancelledAndGoesOn: a message that has come in part is not lost.
func TestReadIsCancelledAndGoesOn(t *testing.T) {
	for _, how := range []string{"by a scope", "by a context"} {
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
				_, message, err := server.Read(ctx)
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
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if err := client.Write(short, ws.Binary, make([]byte, 16<<20)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
		if err := client.Write(ctx, ws.Binary, nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after it: %v", err)
		}
		return nil
	})
}

// TestReaderAndWriter: a large message in pieces, both ways; a part of one is skipped.
func TestReaderAndWriter(t *testing.T) {
	for name, o := range map[string]ws.Options{"plain": {MessageLimit: 8 << 20}, "compressing": {MessageLimit: 8 << 20, CompressFrom: 1}} {
		t.Run(name, func(t *testing.T) {
			pair(t, o, func(ctx context.Context, client, server *ws.Conn) error {
				message := []byte(large(1 << 20))
				return both(ctx, func(ctx context.Context) error {
					w, err := client.Writer(ctx, ws.Text)
					if err != nil {
						return err
					}
					if err := client.Write(ctx, ws.Text, nil); err != ws.ErrBusy {
						return fmt.Errorf("Write beside a Writer: %w", err)
					}
					if _, err := io.Copy(w, bytes.NewReader(message)); err != nil {
						return err
					}
					if err := w.Close(); err != nil {
						return err
					}
					if _, err := w.Write([]byte("x")); err == nil || w.Close() == nil {
						return errors.New("a Writer is used after Close")
					}
					for range 3 {
						if err := client.Write(ctx, ws.Text, message); err != nil {
							return err
						}
					}
					return client.Write(ctx, ws.Binary, []byte("last"))
				}, func(ctx context.Context) error {
					for range 2 {
						kind, r, err := server.Reader(ctx)
						if err != nil || kind != ws.Text {
							return fmt.Errorf("%v: %w", kind, err)
						}
						if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, message) {
							return fmt.Errorf("%d bytes: %w", len(got), err)
						}
					}
					_, skipped, err := server.Reader(ctx)
					if err != nil {
						return err
					}
					if _, err := io.ReadFull(skipped, make([]byte, 100)); err != nil {
						return err
					}
					if _, err := io.ReadAll(io.LimitReader(skipped, 1<<19)); err != nil {
						return err
					}
					if _, got, err := server.Read(ctx); err != nil || !bytes.Equal(got, message) {
						return fmt.Errorf("after a part: %d bytes: %w", len(got), err)
					}
					if _, err := io.Copy(io.Discard, skipped); err == nil {
						return errors.New("a message that was skipped can be read")
					}
					if kind, got, err := server.Read(ctx); kind != ws.Binary || string(got) != "last" {
						return fmt.Errorf("%v %q: %w", kind, got, err)
					}
					return nil
				})
			})
		})
	}
}

// TestReaderOfABomb: the limit holds for what is inflated as it comes.
func TestReaderOfABomb(t *testing.T) {
	ended := make(chan error, 1)
	address := make(chan string, 1)
	inTask(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		address <- ln.Addr().String()
		for range 2 {
			nc, err := ln.AcceptConn()
			if err != nil {
				return err
			}
			c, err := ws.AcceptOn(nc, packing)
			if err != nil {
				return err
			}
			_, r, err := c.Reader(ctx)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r)
			ended <- err
		}
		return ln.Close()
	})
	at := <-address
	for what, want := range map[string]int{pack(string(make([]byte, 16<<20))): 1009, "\xff\xff\xff": 1007} {
		p := join(t, at, packing)
		p.ended = ended
		p.send(p.frame(fin|rsv1|binry, what))
		p.wantsFault(want)
	}
}

// TestTwoReaders: the second is told so.
func TestTwoReaders(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, _, err := server.Read(ctx)
				return err
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if _, _, err := server.Read(ctx); err != ws.ErrBusy {
				t.Errorf("Read: %v", err)
			}
			if _, _, err := server.Reader(ctx); err != ws.ErrBusy {
				t.Errorf("Reader: %v", err)
			}
			return client.Write(ctx, ws.Text, []byte("x"))
		})
	})
}

// TestManyWriters: messages of several tasks do not mix.
func TestManyWriters(t *testing.T) {
	pair(t, ws.Options{ControlLimit: 1 << 20}, func(ctx context.Context, client, server *ws.Conn) error {
		const writers, each = 8, 50
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for i := range writers {
				n.Go(func(ctx context.Context) error {
					for range each {
						if err := server.Write(ctx, ws.Text, []byte(strings.Repeat(fmt.Sprint(i), 20_000))); err != nil {
							return err
						}
						if err := server.Ping(ctx, []byte("?")); err != nil {
							return err
						}
					}
					return nil
				})
			}
			for range writers * each {
				_, message, err := client.Read(ctx)
				if err != nil {
					return err
				}
				if len(message) != 20_000 || strings.Count(string(message), string(message[:1])) != 20_000 {
					return fmt.Errorf("%d bytes of %q", len(message), message[:1])
				}
			}
			return nil
		})
	})
}
