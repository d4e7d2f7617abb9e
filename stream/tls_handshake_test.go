package stream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

func TestTLSHandshakeTimeout(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		c := stream.TLS{Config: tlstest.Identity().Server, HandshakeTimeout: 5 * time.Millisecond}.Server(plain)
		_, err = c.Read(make([]byte, 1))
		var fault net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &fault) || !fault.Timeout() {
			t.Errorf("the timeout: %v", err)
		}
		if err := c.Handshake(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the next attempt: %v", err)
		}
		return inGoroutine(ctx, func() error {
			if _, err := raw.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the connection was not closed: %v", err)
			}
			return nil
		})
	})
}

func TestTLSCancelledHandshakeEndsTheConnection(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var first *spindle.Scope
			n.Go(func(ctx context.Context) error {
				err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					first = s
					return c.Handshake()
				})
				if err != nil || !first.Caught() {
					t.Errorf("the cancelled handshake: %v", err)
				}
				return nil
			})
			n.Go(func(ctx context.Context) error {
				if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("call that waited for the handshake: %v", err)
				}
				return nil
			})
			if err := settled(ctx, "TLSConn.Handshake", 2); err != nil {
				return err
			}
			first.Cancel(nil)
			return nil
		})
	})
}

// TestTLSHandshakeContextOutsideTasks passes a context that comes from no task, in a
// task and in a goroutine.
func TestTLSHandshakeContextOutsideTasks(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		cause := errors.New("no longer wanted")
		given, cancel := context.WithCancelCause(context.Background())
		calls := []func(context.Context, func() error) error{
			func(ctx context.Context, call func() error) error { return call() },
			inGoroutine,
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for _, in := range calls {
				plain, raw, err := plainPair(ctx)
				if err != nil {
					return err
				}
				c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
				n.Go(func(ctx context.Context) error {
					defer raw.Close()
					err := in(ctx, func() error { return c.HandshakeContext(given) })
					if !errors.Is(err, cause) {
						t.Errorf("the handshake: %v", err)
					}
					return nil
				})
			}
			if err := settled(ctx, "TLSConn.Handshake", 2); err != nil {
				return err
			}
			cancel(cause)
			return nil
		})
	})
}

func TestTLSALPN(t *testing.T) {
	server, client := tlstest.Identity().Server.Clone(), tlstest.Identity().Client.Clone()
	server.NextProtos = []string{"spin/2", "spin/1"}
	client.NextProtos = []string{"other", "spin/1"}
	runTask(t, func(ctx context.Context) error {
		return withTLSPair(ctx, server, client, func(ctx context.Context, s, c *stream.TLSConn) error {
			for _, side := range []*stream.TLSConn{s, c} {
				if got := side.ConnectionState().NegotiatedProtocol; got != "spin/1" {
					t.Errorf("negotiated %q", got)
				}
			}
			return nil
		})
	})
}

// withTLSPair runs fn with a TLSConn at each end.
func withTLSPair(ctx context.Context, server, client *tls.Config, fn func(ctx context.Context, s, c *stream.TLSConn) error) error {
	ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	pair, err := spindle.Gather(ctx,
		func(ctx context.Context) (*stream.TLSConn, error) {
			plain, err := ln.AcceptConn()
			if err != nil {
				return nil, err
			}
			s := stream.TLS{Config: server}.Server(plain)
			return s, s.Handshake()
		},
		func(ctx context.Context) (*stream.TLSConn, error) {
			return stream.TLS{Config: client}.Dial(ctx, "tcp", ln.Addr().String())
		})
	if err != nil {
		return err
	}
	defer pair[0].Close()
	defer pair[1].Close()
	return fn(ctx, pair[0], pair[1])
}

func TestTLSClientCertificates(t *testing.T) {
	server, client := tlstest.Identity().Server.Clone(), tlstest.Identity().Client.Clone()
	server.ClientAuth = tls.RequireAndVerifyClientCert
	server.ClientCAs = tlstest.Identity().CA.Pool()
	runTask(t, func(ctx context.Context) error {
		client.Certificates = []tls.Certificate{tlstest.Identity().CA.Issue("alice")}
		err := withTLSPair(ctx, server, client, func(ctx context.Context, s, c *stream.TLSConn) error {
			if name := s.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "alice" {
				t.Errorf("the client's name is %q", name)
			}
			return nil
		})
		if err != nil {
			return err
		}
		client.Certificates = []tls.Certificate{tlstest.NewAuthority().Issue("unknown")}
		err = withTLSPair(ctx, server, client, func(ctx context.Context, s, c *stream.TLSConn) error { return nil })
		var unknown x509.UnknownAuthorityError
		if !errors.As(err, &unknown) {
			t.Errorf("client without a certificate: %v", err)
		}
		return nil
	})
}

func TestTLSWrongCertificate(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		var reported error
		serving := stream.ServeConfig{OnError: func(_ *stream.Conn, err error) error { reported = err; return nil }}
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			return serving.Serve(ctx, ln, func(ctx context.Context, plain *stream.Conn) error {
				c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
				defer c.Close()
				_, err := io.Copy(c, c)
				return err
			})
		})
		// Neither another authority nor the system's pool trusts the certificate.
		for _, config := range []*tls.Config{{RootCAs: tlstest.NewAuthority().Pool()}, {}, nil} {
			_, err = stream.TLS{Config: config}.Dial(ctx, "tcp", ln.Addr().String())
			var verification *tls.CertificateVerificationError
			var unknown x509.UnknownAuthorityError
			if !errors.As(err, &verification) || !errors.As(err, &unknown) {
				t.Errorf("an unknown authority: %v", err)
			}
		}
		for reported == nil {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		var alert *net.OpError
		if !errors.As(reported, &alert) || alert.Op != "remote error" {
			t.Errorf("the server got %v", reported)
		}
		wrong := tlstest.Identity().Client.Clone()
		wrong.ServerName = "other.test"
		_, err = stream.TLS{Config: wrong}.Dial(ctx, "tcp", ln.Addr().String())
		var name x509.HostnameError
		if !errors.As(err, &name) || name.Host != "other.test" {
			t.Errorf("a wrong name: %v", err)
		}
		return nil
	})
}

// TestTLSStartTLS upgrades a conversation with the beginning of the handshake
// already in its reader's buffer.
func TestTLSStartTLS(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		client := tlstest.NewPeer(raw, tls.Client, tlstest.Identity().Client)
		shaken := make(chan error, 1)
		client.Raw.First = []byte("STARTTLS\r\n") // in one packet with the handshake
		go func() { shaken <- client.Handshake() }()
		lines := bufio.NewReader(plain)
		line, err := lines.ReadString('\n')
		if line != "STARTTLS\r\n" || lines.Buffered() == 0 {
			t.Errorf("read %q, and %d bytes ahead: %v", line, lines.Buffered(), err)
		}
		c := stream.TLS{Config: tlstest.Identity().Server}.Server(plain)
		defer c.Close()
		if err := stream.StartTLS(ctx, c, lines); err != nil {
			return err
		}
		if _, err := c.Write([]byte("secret")); err != nil {
			return err
		}
		return inGoroutine(ctx, func() error { return errors.Join(<-shaken, expect(ctx, client, "secret")) })
	})
}
