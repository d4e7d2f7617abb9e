package sim_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// certificate returns configurations with a certificate for the host "server".
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"server"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: simkernel.Begin, NotAfter: simkernel.Begin.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "server"}
}

// secrets is a TLS server with clients that retry.
func secrets(t *testing.T) func(w *sim.World) {
	serverConfig, clientConfig := certificate(t)
	return func(w *sim.World) {
		serverConfig, clientConfig := serverConfig.Clone(), clientConfig.Clone() // a used Config keeps keys
		w.Host("server").Serve(func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", ":443")
			if err != nil {
				return err
			}
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				s := stream.TLS{Config: serverConfig}.Server(c)
				defer s.Close()
				io.Copy(s, s)
				return nil
			})
		})
		for i := range 2 {
			w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error {
				for {
					err := spindle.FailAfter(ctx, 5*time.Second, func(ctx context.Context) error {
						c, err := stream.TLS{Config: clientConfig}.Dial(ctx, "tcp", "server:443")
						if err != nil {
							return err
						}
						defer c.Close()
						if _, err := io.WriteString(c, "secret"); err != nil {
							return err
						}
						got := make([]byte, 6)
						if _, err := io.ReadFull(c, got); err != nil {
							return err
						}
						if string(got) != "secret" {
							return fmt.Errorf("the answer is %q", got)
						}
						return nil
					})
					if err == nil || errors.Is(err, errors.ErrUnsupported) {
						return err
					}
					if err := spindle.Sleep(ctx, time.Second); err != nil {
						return err
					}
				}
			})
		}
		w.Faults = sim.Faults{For: 10 * time.Second, Lasting: time.Second, Loss: 0.02, Dribble: 0.1, PartitionEvery: 2 * time.Second, CrashEvery: 5 * time.Second}
	}
}

// TestTLSInAWorld: in a test, keys come from the seed, and the validity of certificates
// follows the world's clock.
func TestTLSInAWorld(t *testing.T) { sim.Explore(t, 20, secrets(t)) }

// TestTLSIsRefusedOutsideOfTests, because keys would not follow the seed there.
func TestTLSIsRefusedOutsideOfTests(t *testing.T) {
	w := sim.NewWorld(1)
	secrets(t)(w)
	if err := w.Run(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// TestTLSNeedsItsOwnAuthorities: the machine's certificate authorities are not used.
func TestTLSNeedsItsOwnAuthorities(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":443")
		if err != nil {
			return err
		}
		defer ln.Close()
		_, err = stream.TLS{}.Dial(ctx, "tcp", "localhost:443")
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		return nil
	})
}
