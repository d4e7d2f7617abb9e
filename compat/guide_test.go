package compat

import (
	"testing"

	"github.com/spindleloop/spindle/internal/snippets"
)

// TestCodeOfTheGuideCompiles: the code with other libraries in the pages of the guide.
func TestCodeOfTheGuideCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: calls the compiler")
	}
	if n := snippets.CompileKind(t, "../docs/guide/*.md", "go compat", guideHead); n < 1 {
		t.Errorf("only %d blocks were found", n)
	}
}

const guideHead = `package snippet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/spindleloop/spindle"
)

var (
	_, dsn = fmt.Sprint, ""

	id     int
	nameOf func(ctx context.Context, pool *pgxpool.Pool, id int) (string, error)
)

func _(ctx context.Context) (err error) {`
