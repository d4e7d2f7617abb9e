package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

func TestTLSCloseNotifyIsTheEnd(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		if err := inGoroutine(ctx, func() error {
			_, err := peer.Write([]byte("last"))
			return errors.Join(err, peer.CloseWrite())
		}); err != nil {
			return err
		}
		all, err := io.ReadAll(c) // until io.EOF
		if string(all) != "last" || err != nil {
			t.Errorf("read %q, %v", all, err)
		}
		if _, err := c.Write([]byte("answer")); err != nil { // only the peer's half is closed
			return err
		}
		return inGoroutine(ctx, func() error { return expect(ctx, peer, "answer") })
	})
}

func TestTLSCloseNotifiesThePeer(t *testing.T) {
	for name, end := range map[string]func(*stream.TLSConn) error{
		"Close":      (*stream.TLSConn).Close,
		"CloseWrite": (*stream.TLSConn).CloseWrite,
	} {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
				if _, err := c.Write([]byte("last words, long enough")); err != nil {
					return err
				}
				if err := end(c); err != nil {
					return err
				}
				return inGoroutine(ctx, func() error {
					all, err := io.ReadAll(peer)
					if string(all) != "last words, long enough" || !peer.Raw.EndsWithAlert() {
						t.Errorf("the peer read %q and got no close notification", all)
					}
					return err
				})
			})
		})
	}
}

func TestTLSTruncation(t *testing.T) {
	for _, test := range []struct {
		name string
		cut  func(f *tlstest.Forger) []byte // what the peer sends before it closes the socket
		want error
	}{
		{"between records", func(f *tlstest.Forger) []byte { return f.Record(tlstest.DataRecord, 'x') }, io.EOF},
		{"in a header", func(f *tlstest.Forger) []byte {
			return append(f.Record(tlstest.DataRecord, 'x'), f.Record(tlstest.DataRecord, 'y')[:3]...)
		}, io.ErrUnexpectedEOF},
		{"in a record", func(f *tlstest.Forger) []byte {
			return append(f.Record(tlstest.DataRecord, 'x'), f.Record(tlstest.DataRecord, 'y')[:9]...)
		}, io.ErrUnexpectedEOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
				peer.Raw.Write(test.cut(peer.Forge13()))
				peer.Raw.CloseWrite()
				if err := expect(ctx, c, "x"); err != nil {
					return err
				}
				if _, err := c.Read(make([]byte, 1)); err != test.want {
					t.Errorf("Read at the end: %v, want %v", err, test.want)
				}
				return nil
			})
		})
	}
}

func TestTLSCloseEndsPendingCalls(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			closed := func(call func([]byte) (int, error), size int) {
				n.Go(func(ctx context.Context) error {
					if _, err := call(make([]byte, size)); !errors.Is(err, net.ErrClosed) {
						t.Errorf("pending call: %v", err)
					}
					return nil
				})
			}
			closed(c.Read, 1)
			closed(c.Read, 1)
			closed(c.Write, 16<<20)
			closed(c.Write, 1)
			if err := errors.Join(settled(ctx, "TLSConn.Read", 2), settled(ctx, "TLSConn.Write", 2)); err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
			if err := c.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the second Close: %v", err)
			}
			return nil
		})
	})
}

// TestTLSCloseNotifiesThePeerOnceWritable: Close does not wait. The peer reads all
// the data and then the close notification.
func TestTLSCloseNotifiesThePeerOnceWritable(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		written, err := fillTLS(ctx, c)
		if err != nil {
			return err
		}
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
					t.Errorf("pending Read: %v", err)
				}
				return nil
			})
			if err := settled(ctx, "TLSConn.Read", 1); err != nil {
				return err
			}
			return c.Close()
		})
		if err != nil {
			return err
		}
		if err := c.NetConn().Close(); !errors.Is(err, net.ErrClosed) { // as Serve does
			t.Errorf("the Conn was not closed: %v", err)
		}
		return inGoroutine(ctx, func() error {
			n, err := io.Copy(io.Discard, peer)
			if n != int64(written) || err != nil {
				t.Errorf("the peer read %d bytes of %d, %v", n, written, err)
			}
			if !peer.Raw.EndsWithAlert() {
				t.Error("the peer got no close notification")
			}
			return nil
		})
	})
}
