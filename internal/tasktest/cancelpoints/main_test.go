package cancelpoints_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// forever waits until it is cancelled.
func forever(ctx context.Context) error { return spindle.Sleep(ctx, 1<<62) }
