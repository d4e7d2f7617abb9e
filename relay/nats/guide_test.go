package nats_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/spindleloop/spindle/internal/snippets"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// guideConfiguration returns the block of the guide to relay that begins with a text.
func guideConfiguration(t *testing.T, begin string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guide/relay.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n\n    "+begin)
	block, _, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatalf("the guide has no block that begins with %s", begin)
	}
	return begin + block + "\n"
}

// TestConfigurationOfTheGuide: a server with the configuration of the guide notices silent workers as those of
// package broker do, and a worker with the permissions there answers.
func TestConfigurationOfTheGuide(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.conf")
	text := "PAY: pay\n" + guideConfiguration(t, "ping_interval") + "authorization { users: [\n" + guideConfiguration(t, "{ user: pay") + "] }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	guide, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := startStrict(t, broker.Options{Configure: func(o *server.Options) {
		if o.PingInterval != guide.PingInterval || o.MaxPingsOut != guide.MaxPingsOut {
			t.Errorf("the guide has %v and %d, package broker %v and %d", guide.PingInterval, guide.MaxPingsOut, o.PingInterval, o.MaxPingsOut)
		}
		o.PingInterval = time.Hour // a busy machine may be silent for long
		o.Users = append(guide.Users, &server.User{Username: "web", Password: "web", Permissions: mayCall("pay")})
	}})
	serve(t, connect(t, b, as("pay", nats.Options{})), "pay", echo, relay.ServeOptions{})
	if got, err := caller(t, connect(t, b, as("web", nats.Options{}))).Call(t.Context(), "pay", []byte("hello")); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestCodeOfTheGuideCompiles: the code for this module in the pages of the guide.
func TestCodeOfTheGuideCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: calls the compiler")
	}
	if n := snippets.CompileKind(t, "../../docs/guide/*.md", "go nats", guideHead); n < 6 {
		t.Errorf("only %d blocks were found", n)
	}
}

const guideHead = `package snippet

import (
	"context"
	"crypto/tls"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
)

var (
	_, _, _ = client.Secure, time.Second, relay.ErrClosed

	bus     *nats.Bus
	options nats.Options
	config  *tls.Config
	body    []byte
	pay     relay.Handler
)

func _(ctx context.Context) (err error) {`
