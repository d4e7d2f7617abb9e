package stream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// runTask runs fn as a task.
func runTask(t *testing.T, fn func(ctx context.Context) error) {
	t.Helper()
	runOn(t, "auto", fn)
}

// runOn runs fn as a task on a loop with the named backend. It does not count
// descriptors as run does: the peer may close its own after fn has returned.
func runOn(t *testing.T, backend string, fn func(ctx context.Context) error) {
	t.Helper()
	if err := (spindle.Options{Loop: loop.Options{Backend: backend}}).Run(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// plainPair returns a Conn and the net.TCPConn it is connected to.
func plainPair(ctx context.Context) (*stream.Conn, *net.TCPConn, error) {
	ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	peer, err := spindle.Blocking(ctx, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
	if err != nil {
		return nil, nil, err
	}
	c, err := ln.AcceptConn()
	return c, peer.(*net.TCPConn), err
}

// withPeer runs fn with a TLSConn and a crypto/tls client after their handshake, on
// the best backend and, without -short, on a level-triggered one.
func withPeer(t *testing.T, fn func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error) {
	t.Helper()
	backends := []string{"auto", "poll"}
	if testing.Short() {
		backends = backends[:1]
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			runOn(t, backend, func(ctx context.Context) error {
				plain, raw, err := plainPair(ctx)
				if err != nil {
					return err
				}
				peer := tlstest.NewPeer(raw, tls.Client, tlstest.Identity().Client)
				defer raw.Close()
				c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
				defer c.Close()
				if err := bothAtOnce(ctx, c.HandshakeContext, peer); err != nil {
					return err
				}
				return fn(ctx, c, peer)
			})
		})
	}
}

// bothAtOnce performs the handshake on both sides.
func bothAtOnce(ctx context.Context, ours func(context.Context) error, peer *tlstest.Peer) error {
	_, err := spindle.Gather(ctx,
		func(ctx context.Context) (any, error) { return nil, ours(ctx) },
		func(ctx context.Context) (any, error) { return nil, inGoroutine(ctx, peer.Handshake) })
	return err
}

func inGoroutine(ctx context.Context, fn func() error) error {
	_, err := spindle.Blocking(ctx, func() (any, error) { return nil, fn() })
	return err
}

func expect(ctx context.Context, c io.Reader, want string) error {
	buf := make([]byte, len(want))
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if string(buf) != want {
		return errors.New("read " + string(buf) + ", not " + want)
	}
	return nil
}

// settled waits until n tasks wait for what and stay so for many turns of the loop.
func settled(ctx context.Context, what string, n int) error {
	for turns := 0; turns < 300; turns++ {
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		now := 0
		for _, task := range spindle.TreeOf(ctx) {
			if task.State == "waiting" && task.WaitsFor == what {
				now++
			}
		}
		if now != n {
			turns = 0
		}
	}
	return nil
}

func TestTLSWithTheStandardLibraryAsClient(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		if !c.ConnectionState().HandshakeComplete {
			t.Error("the handshake is not complete")
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		if err := inGoroutine(ctx, func() error {
			if err := expect(ctx, peer, "hello"); err != nil {
				return err
			}
			_, err := peer.Write([]byte("bye"))
			return err
		}); err != nil {
			return err
		}
		return expect(ctx, c, "bye")
	})
}

func TestTLSWithTheStandardLibraryAsServer(t *testing.T) {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", tlstest.Identity().Server)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() {
		peer, err := ln.Accept()
		if err == nil {
			_, err = io.Copy(peer, peer)
			peer.Close()
		}
		served <- err
	}()
	runTask(t, func(ctx context.Context) error {
		config := tlstest.Identity().Client.Clone()
		config.ServerName = "" // taken from the address
		c, err := stream.TLS{Config: config}.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		if err := expect(ctx, c, "hello"); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read at the end: %v", err)
		}
		if _, err := c.Write([]byte("more")); err == nil {
			t.Error("a Write after CloseWrite succeeded")
		}
		return nil
	})
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestTLSTwoReaders(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		var got []string
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for _, name := range []string{"first", "second"} {
				n.Go(func(ctx context.Context) error {
					buf := make([]byte, 1)
					_, err := c.Read(buf)
					got = append(got, name+" "+string(buf))
					return err
				})
			}
			if err := settled(ctx, "TLSConn.Read", 2); err != nil {
				return err
			}
			return inGoroutine(ctx, func() error { _, err := peer.Write([]byte("ab")); return err })
		})
		if all := strings.Join(got, ", "); all != "first a, second b" {
			t.Error(all)
		}
		return err
	})
}

func TestTLSReaderAndWriterBeforeTheHandshake(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
		defer c.Close()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return expect(ctx, c, "ping") })
			n.Go(func(ctx context.Context) error { _, err := c.Write([]byte("pong")); return err })
			n.Go(func(ctx context.Context) error { return c.Handshake() })
			// One call performs the handshake, two wait for it, and the loop keeps
			// running.
			if err := settled(ctx, "TLSConn.Handshake", 3); err != nil {
				return err
			}
			peer := tls.Client(raw, tlstest.Identity().Client)
			return inGoroutine(ctx, func() error {
				if _, err := peer.Write([]byte("ping")); err != nil {
					return err
				}
				return expect(ctx, peer, "pong")
			})
		})
	})
}

func TestTLSCancelledReadLeavesTheSessionUsable(t *testing.T) {
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		// Half of a record, so that the cancellation interrupts crypto/tls within
		// one.
		peer.Raw.Halved, peer.Raw.Rest = make(chan struct{}), make(chan struct{})
		sent := make(chan error, 1)
		go func() { _, err := peer.Write([]byte("whole")); sent <- err }()
		if err := inGoroutine(ctx, func() error { <-peer.Raw.Halved; return nil }); err != nil {
			return err
		}
		for range 3 {
			expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
				_, err := c.Read(make([]byte, 8))
				return err
			})
			if !expired || err != nil {
				t.Errorf("expired %v, %v", expired, err)
			}
		}
		c.SetReadDeadline(time.Unix(1, 0))
		if _, err := c.Read(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read past its deadline: %v", err)
		}
		c.SetReadDeadline(time.Time{})
		close(peer.Raw.Rest)
		if err := expect(ctx, c, "whole"); err != nil {
			return err
		}
		return inGoroutine(ctx, func() error { return <-sent })
	})
}

func TestTLSLargeTransfersBothWaysAtOnce(t *testing.T) {
	const size = 8 << 20
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	withPeer(t, func(ctx context.Context, c *stream.TLSConn, peer *tlstest.Peer) error {
		same := func(r io.Reader) error {
			got := make([]byte, size)
			if _, err := io.ReadFull(r, got); err != nil {
				return err
			}
			if !bytes.Equal(got, data) {
				return errors.New("read something else")
			}
			return nil
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { _, err := c.Write(data); return err })
			n.Go(func(ctx context.Context) error { return same(c) })
			n.Go(func(ctx context.Context) error {
				return inGoroutine(ctx, func() error { _, err := peer.Write(data); return err })
			})
			n.Go(func(ctx context.Context) error { return inGoroutine(ctx, func() error { return same(peer) }) })
			return nil
		})
	})
}
