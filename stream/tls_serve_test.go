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

// withEcho runs fn with a server that echoes borrowed bytes.
func withEcho(t *testing.T, o stream.TLS, fn func(ctx context.Context, address string) error) {
	t.Helper()
	runTask(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			return stream.Serve(ctx, ln, func(ctx context.Context, plain *stream.Conn) error {
				c := o.Server(plain)
				defer c.Close()
				for {
					p, err := c.ReadBorrow()
					if err == io.EOF {
						return nil
					}
					if err != nil {
						return err
					}
					if _, err := c.Write(p); err != nil {
						return err
					}
				}
			})
		})
		return fn(ctx, ln.Addr().String())
	})
}

// echoTLS sends data and checks the echo while it sends.
func echoTLS(ctx context.Context, address string, data []byte) error {
	c, err := stream.TLS{Config: tlstest.Identity().Client}.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			_, err := c.Write(data)
			return errors.Join(err, c.CloseWrite())
		})
		got, err := io.ReadAll(c)
		if err == nil && !bytes.Equal(got, data) {
			err = errors.New("the echo differs")
		}
		return err
	})
}

func TestTLSServe(t *testing.T) {
	withEcho(t, stream.TLS{Config: tlstest.Identity().Server}, func(ctx context.Context, address string) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for i := range 20 {
				data := bytes.Repeat([]byte{byte('a' + i)}, i*i*2000)
				n.Go(func(ctx context.Context) error { return echoTLS(ctx, address, data) })
			}
			return nil
		})
	})
}

// TestTLSServeOutlivesBadClients: a silent client does not delay others, and one
// that does not speak TLS does not end the server.
func TestTLSServeOutlivesBadClients(t *testing.T) {
	withEcho(t, stream.TLS{Config: tlstest.Identity().Server}, func(ctx context.Context, address string) error {
		silent, err := stream.Dial(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer silent.Close()
		for range 3 {
			other, err := stream.Dial(ctx, "tcp", address)
			if err != nil {
				return err
			}
			other.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
			io.Copy(io.Discard, other) // until it is closed
			other.Close()
		}
		return echoTLS(ctx, address, []byte("hello"))
	})
}

// slowCertificates returns a config with a GetCertificate that blocks until release
// is closed.
func slowCertificates(release chan struct{}) *tls.Config {
	return &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return spindle.Blocking(hello.Context(), func() (*tls.Certificate, error) {
			select {
			case <-release:
				return &tlstest.Identity().Server.Certificates[0], nil
			case <-hello.Context().Done():
				return nil, hello.Context().Err()
			}
		})
	}}
}

func TestTLSGetCertificateWaits(t *testing.T) {
	release := make(chan struct{})
	withEcho(t, stream.TLS{Config: slowCertificates(release)}, func(ctx context.Context, address string) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return echoTLS(ctx, address, []byte("hello")) })
			if err := settled(ctx, "Blocking", 1); err != nil {
				return err
			}
			close(release)
			return nil
		})
	})
}

func TestTLSGetCertificateTimesOut(t *testing.T) {
	o := stream.TLS{Config: slowCertificates(nil), HandshakeTimeout: 5 * time.Millisecond}
	withEcho(t, o, func(ctx context.Context, address string) error {
		var fault net.Error
		if err := echoTLS(ctx, address, nil); err != io.EOF && !errors.As(err, &fault) {
			t.Errorf("without a certificate: %v", err)
		}
		return nil
	})
}

// TestTLSGetCertificatePanics checks that the panic ends the task and leaves no
// other call waiting.
func TestTLSGetCertificatePanics(t *testing.T) {
	runTask(t, func(ctx context.Context) error {
		plain, raw, err := plainPair(ctx)
		if err != nil {
			return err
		}
		defer raw.Close()
		ended := make(chan error, 1)
		go func() { ended <- tls.Client(raw, tlstest.Identity().Client).Handshake() }()
		c := stream.TLS{Config: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			panic("no certificate")
		}}}.Server(plain)
		func() {
			defer func() {
				if v := recover(); v != "no certificate" {
					t.Errorf("recovered %v", v)
				}
			}()
			c.Handshake()
		}()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a Read after it: %v", err)
		}
		c.Close()
		return inGoroutine(ctx, func() error { <-ended; return nil })
	})
}
