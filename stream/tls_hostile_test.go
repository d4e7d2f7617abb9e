package stream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

// withStuckWriter runs fn with a peer that does not read and a task that writes more
// than the socket accepts. When fn returns, the peer reads. All of that data must
// arrive, followed by what fn wrote, unless the connection is expected to break.
func withStuckWriter(t *testing.T, broken bool, fn func(ctx context.Context, n *spindle.Nursery, c *stream.TLSConn, peer *tlstest.Peer) error, behind string) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, err := c.Write(data)
				if broken && err != nil {
					return nil
				}
				return err
			})
			if err := settled(ctx, "TLSConn.Write", 1); err != nil {
				return err
			}
			if err := fn(ctx, n, c, peer); err != nil || broken {
				c.Close()
				return err
			}
			got := make([]byte, len(data))
			err := inGoroutine(ctx, func() error {
				if _, err := io.ReadFull(peer, got); err != nil {
					return err
				}
				return expect(ctx, peer, behind)
			})
			if !bytes.Equal(got, data) {
				t.Error("what was written is not what was read")
			}
			return err
		})
	})
}

// keepsTurning runs fn beside a ticking task and checks that it ticks before, during
// and after fn.
func keepsTurning(ctx context.Context, fn func(ctx context.Context) error) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		ticks := 0
		n.Go(func(ctx context.Context) error {
			for {
				if err := spindle.Sleep(ctx, 100*time.Microsecond); err != nil {
					return err
				}
				ticks++
			}
		})
		more := func() error {
			for until := ticks + 5; ticks < until; {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		}
		if err := more(); err != nil {
			return err
		}
		if err := fn(ctx); err != nil {
			return err
		}
		if err := more(); err != nil {
			return err
		}
		n.Scope().Cancel(nil)
		return nil
	})
}

func TestTLSBadRecordFromPeerThatDoesNotRead(t *testing.T) {
	withStuckWriter(t, true, func(ctx context.Context, _ *spindle.Nursery, c *stream.TLSConn, peer *tlstest.Peer) error {
		return keepsTurning(ctx, func(ctx context.Context) error {
			bad := append([]byte{tlstest.DataRecord, 3, 3, 0, 32}, make([]byte, 32)...)
			if _, err := peer.Raw.Write(bad); err != nil {
				return err
			}
			_, err := c.Read(make([]byte, 1))
			var alert *net.OpError
			if !errors.As(err, &alert) || alert.Op != "local error" {
				t.Errorf("a bad record: %v", err)
			}
			if _, again := c.Read(make([]byte, 1)); again == nil || again.Error() != err.Error() {
				t.Errorf("the next Read: %v", again)
			}
			return nil
		})
	}, "")
}

func TestTLSKeyUpdateFromPeerThatDoesNotRead(t *testing.T) {
	withStuckWriter(t, false, func(ctx context.Context, _ *spindle.Nursery, c *stream.TLSConn, peer *tlstest.Peer) error {
		return keepsTurning(ctx, func(ctx context.Context) error {
			f := peer.Forge13()
			for range 5 {
				if _, err := peer.Raw.Write(append(f.RequestKeyUpdate(), f.Record(tlstest.DataRecord, 'k', 'e', 'y')...)); err != nil {
					return err
				}
				if err := expect(ctx, c, "key"); err != nil {
					return err
				}
			}
			return nil
		})
	}, "")
}

func TestTLSKeyUpdateWithoutAWriter(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		f := peer.Forge13()
		if _, err := peer.Raw.Write(append(f.RequestKeyUpdate(), f.Record(tlstest.DataRecord, 'k', 'e', 'y')...)); err != nil {
			return err
		}
		if err := expect(ctx, c, "key"); err != nil {
			return err
		}
		if _, err := c.Write([]byte("new")); err != nil {
			return err
		}
		return inGoroutine(ctx, func() error { return expect(ctx, peer, "new") })
	})
}

// TestTLSEndlessKeyUpdates: the peer requests key updates and does not read the
// replies, which are buffered up to a limit.
func TestTLSEndlessKeyUpdates(t *testing.T) {
	withStuckWriter(t, true, func(ctx context.Context, _ *spindle.Nursery, c *stream.TLSConn, peer *tlstest.Peer) error {
		f := peer.Forge13()
		for updates := 0; ; updates++ {
			if updates == 1000 {
				t.Fatal("a thousand replies were buffered")
			}
			if _, err := peer.Raw.Write(append(f.RequestKeyUpdate(), f.Record(tlstest.DataRecord, 'k')...)); err != nil {
				return err
			}
			_, err := c.Read(make([]byte, 1))
			var fault net.Error
			if err != nil && errors.As(err, &fault) && updates > 100 {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}, "")
}

// TestTLSAlertToPeerThatDoesNotRead checks that an alert is sent once the socket is
// writable, though no task writes.
func TestTLSAlertToPeerThatDoesNotRead(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		written, err := fillTLS(ctx, c)
		if err != nil {
			return err
		}
		bad := append([]byte{tlstest.DataRecord, 3, 3, 0, 32}, make([]byte, 32)...)
		if _, err := peer.Raw.Write(bad); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a bad record was read")
		}
		return inGoroutine(ctx, func() error {
			n, err := io.Copy(io.Discard, peer)
			var alert *net.OpError
			if n != int64(written) || !errors.As(err, &alert) || alert.Op != "remote error" {
				t.Errorf("the peer read %d bytes of %d, and then %v", n, written, err)
			}
			return nil
		})
	})
}

// fillTLS writes until the socket's buffer is full and then cancels the Write. The
// bytes it returns as written are sent when the socket is writable again. That may
// be soon: the kernel reports writability only when a third of its buffer is free.
func fillTLS(ctx context.Context, c *stream.TLSConn) (written int, err error) {
	data := make([]byte, 16<<20)
	err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) (err error) {
				written, err = c.Write(data)
				return err
			})
			if err := settled(ctx, "TLSConn.Write", 1); err != nil {
				return err
			}
			s.Cancel(nil)
			return nil
		})
	})
	if err == nil && (written == 0 || written == len(data)) {
		err = errors.New("the Write was not cancelled")
	}
	return written, err
}

func TestTLSCancelledWriteReportsBytesWritten(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		written, err := fillTLS(ctx, c)
		if err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { _, err := c.Write([]byte("behind it")); return err })
			return inGoroutine(ctx, func() error {
				if _, err := io.CopyN(io.Discard, peer, int64(written)); err != nil {
					return err
				}
				return expect(ctx, peer, "behind it")
			})
		})
	})
}

func renegotiable(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.MaxVersion = tls.VersionTLS12
	config.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	return config
}

func TestTLSRenegotiationIsRefusedByTheServer(t *testing.T) {
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
		hello := peer.Raw.Sent[5 : 9+int(peer.Raw.Sent[8])+int(peer.Raw.Sent[7])<<8]
		return refuses(t, ctx, c, peer, peer.Forge12(false, 1, tlstest.HandshakeRecord, hello...))
	})
}

func TestTLSRenegotiationIsRefusedByTheClient(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		peer := tlstest.NewPeer(raw, tls.Server, renegotiable(tlstest.Identity().Server))
		c := stream.TLS{Config: tlstest.Identity().Client}.Client(plain)
		defer c.Close()
		if err := bothAtOnce(ctx, c.HandshakeContext, peer); err != nil {
			return err
		}
		return refuses(t, ctx, c, peer, peer.Forge12(true, 1, tlstest.HandshakeRecord, tlstest.HelloRequest, 0, 0, 0))
	})
}

// refuses checks that a record is answered with an alert and ends the session.
func refuses(t *testing.T, ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer, record []byte) error {
	if _, err := peer.Raw.Write(record); err != nil {
		return err
	}
	var fault net.Error // so that Serve does not log it
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &fault) {
		t.Errorf("an attempt to renegotiate: %v", err)
	}
	var alert *net.OpError
	if _, err := c.Write([]byte("more")); !errors.As(err, &alert) || alert.Op != "local error" {
		t.Errorf("a Write after it: %v", err)
	}
	c.Close()
	return inGoroutine(ctx, func() error {
		if n, err := peer.Read(make([]byte, 1)); err == nil {
			t.Errorf("the peer has read %d bytes", n)
		}
		return nil
	})
}

func TestTLSClientWithRenegotiationFails(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		config := tlstest.Identity().Client.Clone()
		config.Renegotiation = tls.RenegotiateOnceAsClient
		c := stream.TLS{Config: config}.Client(plain)
		defer c.Close()
		if err := c.Handshake(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v", err)
		}
		return nil
	})
}
