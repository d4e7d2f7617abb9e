package nats_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// callOver makes a call from one connection to another, with the same options.
func callOver(t *testing.T, b *broker.Broker, o nats.Options) {
	t.Helper()
	serve(t, connect(t, b, o), "echo", echo, relay.ServeOptions{})
	if got, err := caller(t, connect(t, b, o)).Call(t.Context(), "echo", []byte("hello")); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestTLS has a server that demands certificates of its clients.
func TestTLS(t *testing.T) {
	authority := tlstest.NewAuthority()
	b := start(t, broker.Options{Configure: func(o *server.Options) {
		o.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{authority.Issue("localhost")},
			ClientCAs:    authority.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		}
		o.TLSTimeout = 30
	}})
	secure := func(c *tls.Config) nats.Options {
		return nats.Options{NATS: []client.Option{client.Secure(c), patient}}
	}
	callOver(t, b, secure(&tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{authority.Issue("client")}}))

	_, err := nats.Connect(t.Context(), b.URL(), secure(&tls.Config{RootCAs: tlstest.NewAuthority().Pool()}))
	var unknown x509.UnknownAuthorityError
	if !errors.Is(err, relay.ErrDown) || !errors.As(err, &unknown) {
		t.Errorf("a server that the client does not trust: %v", err)
	}
	if _, err := nats.Connect(t.Context(), b.URL(), secure(&tls.Config{RootCAs: authority.Pool()})); !errors.Is(err, relay.ErrDown) {
		t.Errorf("a client without a certificate: %v", err)
	}
}

func TestPassword(t *testing.T) {
	b := start(t, broker.Options{Configure: func(o *server.Options) { o.Username, o.Password = "ada", "secret" }})
	callOver(t, b, nats.Options{NATS: []client.Option{client.UserInfo("ada", "secret")}})

	for _, o := range []nats.Options{{NATS: []client.Option{patient}}, {NATS: []client.Option{patient, client.UserInfo("ada", "guess")}}} {
		if _, err := nats.Connect(t.Context(), b.URL(), o); !errors.Is(err, nats.ErrDenied) || !errors.Is(err, client.ErrAuthorization) {
			t.Errorf("got %v", err)
		}
	}
	_, err := nats.Connect(t.Context(), strings.Replace(b.URL(), "//", "//ada:guess@", 1), nats.Options{NATS: []client.Option{patient}})
	if !errors.Is(err, nats.ErrDenied) || strings.Contains(err.Error(), "guess") {
		t.Errorf("an error with the password: %v", err)
	}
}

// TestMessagesShowNoSecrets: not even with URLs that are malformed, or have a token.
func TestMessagesShowNoSecrets(t *testing.T) {
	for _, server := range []string{
		"nats://ada:secret@127.0.0.1:1", "nats://secret@127.0.0.1:1", "ada:secret@127.0.0.1:1",
		"nats://ada:secret %zz@127.0.0.1:1", "nats://ada:sec@ret@127.0.0.1:1",
	} {
		servers := server + ",nats://127.0.0.1:1"
		if got := nats.Redacted(servers); strings.Contains(got, "sec") || !strings.HasSuffix(got, "@127.0.0.1:1,nats://127.0.0.1:1") {
			t.Errorf("%s becomes %s", server, got)
		}
		if _, err := nats.Connect(t.Context(), servers, nats.Options{}); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// TestKeyFile has credentials in a file.
func TestKeyFile(t *testing.T) {
	file := func(pair nkeys.KeyPair) string {
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "user.nk")
		if err := os.WriteFile(name, seed, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	options := func(name string) nats.Options {
		key, err := client.NkeyOptionFromSeed(name)
		if err != nil {
			t.Fatal(err)
		}
		return nats.Options{NATS: []client.Option{key, patient}}
	}
	known, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := known.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, broker.Options{Configure: func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }})
	callOver(t, b, options(file(known)))

	unknown, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Connect(t.Context(), b.URL(), options(file(unknown))); !errors.Is(err, nats.ErrDenied) {
		t.Errorf("a key that the server does not know: %v", err)
	}
}
