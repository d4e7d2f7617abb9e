package webgrpc_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/snippets"
)

// TestCodeOfTheGuideCompiles: the code for this module in the pages of the guide.
func TestCodeOfTheGuideCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: calls the compiler")
	}
	if n := snippets.CompileKind(t, "../../docs/guide/*.md", "go grpc", guideHead); n < 1 {
		t.Errorf("only %d blocks were found", n)
	}
}

const guideHead = `package snippet

import (
	"context"
	"net/http"

	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

var service pb.HealthServer

func _(ctx context.Context) (err error) {`
