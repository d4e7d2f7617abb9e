package otel_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/snippets"
)

// TestCodeOfTheGuideCompiles: the code for this module in the pages of the guide.
func TestCodeOfTheGuideCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: calls the compiler")
	}
	if n := snippets.CompileKind(t, "../../docs/guide/*.md", "go otel", guideHead); n < 2 {
		t.Errorf("only %d blocks were found", n)
	}
}

const guideHead = `package snippet

import (
	"context"
	"net/http"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect/otel"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/web"
)

var (
	_, _ = spindle.Run, web.Inline

	provider *sdktrace.TracerProvider
	mux      http.Handler
	bus      relay.Bus
	upper    relay.Handler
)

func _(ctx context.Context) (err error) {`
