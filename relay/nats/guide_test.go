package nats_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/snippets"
)

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
