package stream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

// TestTLSBytesBeforeHalfAnAlert checks that Read returns the bytes and then waits
// for the rest of the alert.
func TestTLSBytesBeforeHalfAnAlert(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		peer := tlstest.NewPeer(raw, tls.Client, renegotiable(tlstest.Identity().Client))
		c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
		defer c.Close()
		if err := bothAtOnce(ctx, c.HandshakeContext, peer); err != nil {
			return err
		}
		end := peer.Forge12(false, 2, tlstest.AlertRecord, 1, 0)
		peer.Raw.Write(append(peer.Forge12(false, 1, tlstest.DataRecord, 'x'), end[:9]...))
		if n, err := c.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		peer.Raw.Write(end[9:])
		if _, err := c.Read(make([]byte, 8)); err != io.EOF {
			t.Errorf("Read at the end: %v", err)
		}
		return nil
	})
}

// TestTLSWriteDeadline checks that the bytes a late Write reports are sent whatever
// deadlines follow, and that further Writes succeed.
func TestTLSWriteDeadline(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		written := 0
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) (err error) {
				written, err = c.Write(make([]byte, 16<<20))
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Write: %v", err)
				}
				return nil
			})
			if err := settled(ctx, "TLSConn.Write", 1); err != nil {
				return err
			}
			return c.SetWriteDeadline(time.Unix(1, 0))
		})
		if err != nil {
			return err
		}
		c.SetWriteDeadline(time.Unix(2, 0)) // while the rest waits for writability
		if _, err := c.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Write past its deadline: %v", err)
		}
		if err := inGoroutine(ctx, func() error {
			_, err := io.CopyN(io.Discard, peer, int64(written))
			return err
		}); err != nil {
			return err
		}
		c.SetWriteDeadline(time.Time{})
		if _, err := c.Write([]byte("behind it")); err != nil {
			return err
		}
		return inGoroutine(ctx, func() error { return expect(ctx, peer, "behind it") })
	})
}

// TestTLSBorrowedBytesAreWrittenUnchanged: the Write has to wait, and other tasks
// read into the shared buffer meanwhile.
func TestTLSBorrowedBytesAreWrittenUnchanged(t *testing.T) {
	withStuckWriter(t, false, func(ctx context.Context, n *spindle.Nursery, c *stream.TLSConn, peer *tlstest.Peer) error {
		say := func(what string) error {
			return inGoroutine(ctx, func() error { _, err := peer.Write([]byte(what)); return err })
		}
		if err := say("lent"); err != nil {
			return err
		}
		n.Go(func(ctx context.Context) error {
			p, err := c.ReadBorrow()
			if err == nil {
				_, err = c.Write(p)
			}
			return err
		})
		if err := settled(ctx, "TLSConn.Write", 2); err != nil {
			return err
		}
		if err := say("over"); err != nil {
			return err
		}
		if p, err := c.ReadBorrow(); string(p) != "over" {
			t.Errorf("read %q, %v", p, err)
		}
		return nil
	}, "lent")
}

func TestTLSBorrowedBytesAreWrittenAfterTheHandshake(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		other, feed, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer feed.Close()
		defer other.Close()
		feed.Write([]byte("lent"))
		c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
		defer c.Close()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				p, err := other.ReadBorrow()
				if err == nil {
					_, err = c.Write(p)
				}
				return err
			})
			if err := settled(ctx, "TLSConn.Handshake", 1); err != nil {
				return err
			}
			feed.Write([]byte("over it"))
			if _, err := other.ReadBorrow(); err != nil {
				return err
			}
			return inGoroutine(ctx, func() error { return expect(ctx, tls.Client(raw, tlstest.Identity().Client), "lent") })
		})
	})
}

// TestTLSCallsInCancelledScope checks that calls do nothing and lose nothing.
func TestTLSCallsInCancelledScope(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		if err := inGoroutine(ctx, func() error { _, err := peer.Write([]byte("kept")); return err }); err != nil {
			return err
		}
		for _, call := range []func() error{
			func() error { _, err := c.Read(make([]byte, 8)); return err },
			func() error { _, err := c.Write([]byte("not sent")); return err },
		} {
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				s.Cancel(nil)
				err := call()
				var canceled *spindle.Canceled
				if !errors.As(err, &canceled) || canceled.Scope != s {
					t.Errorf("the call: %v", err)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		if err := expect(ctx, c, "kept"); err != nil {
			return err
		}
		if err := inGoroutine(ctx, c.CloseWrite); err != nil { // from a goroutine
			return err
		}
		return inGoroutine(ctx, func() error {
			if all, err := io.ReadAll(peer); len(all) > 0 || err != nil {
				t.Errorf("the peer read %q, %v", all, err)
			}
			return nil
		})
	})
}

func TestTLSPeerResets(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for name, call := range map[string]func([]byte) (int, error){"Read": c.Read, "Write": c.Write} {
				n.Go(func(ctx context.Context) error {
					_, err := call(make([]byte, 16<<20))
					var fault *net.OpError
					if !errors.As(err, &fault) || !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
						t.Errorf("%s: %v", name, err)
					}
					return nil
				})
			}
			if err := errors.Join(settled(ctx, "TLSConn.Write", 1), settled(ctx, "TLSConn.Read", 1)); err != nil {
				return err
			}
			peer.Raw.SetLinger(0)
			return peer.Raw.Close()
		})
	})
}

func TestTLSMisuse(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		c := stream.TLS{Config: tlstest.Identity().Server, HandshakeTimeout: -1}.Server(plain)
		if err := c.CloseWrite(); err == nil {
			t.Error("CloseWrite before the handshake succeeded")
		}
		if state := c.ConnectionState(); state.HandshakeComplete || state.Version != 0 {
			t.Errorf("before the handshake: %+v", state)
		}
		peer := tlstest.NewPeer(raw, tls.Client, tlstest.Identity().Client)
		nothing := bufio.NewReader(plain)
		if err := bothAtOnce(ctx, func(ctx context.Context) error { return stream.StartTLS(ctx, c, nothing) }, peer); err != nil {
			return err
		}
		defer func() {
			if recover() == nil {
				t.Error("a second StartTLS did not panic")
			}
			c.Close()
			if err := c.Handshake(); err != nil {
				t.Errorf("Handshake after the handshake: %v", err)
			}
			if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a Write after Close: %v", err)
			}
		}()
		return stream.StartTLS(ctx, c, nil)
	})
}

func TestTLSDialRefused(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		ln.Close()
		c, err := stream.TLS{Config: tlstest.Identity().Client}.Dial(ctx, "tcp", ln.Addr().String())
		if c != nil || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v, %v", c, err)
		}
		return nil
	})
}
