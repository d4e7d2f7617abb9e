package short_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
)

// TestShortRunsDoLess compares both kinds of runs: whichever of them this is.
func TestShortRunsDoLess(t *testing.T) {
	backends, rounds, few := len(kernel.Backends()), 100, 5
	if testing.Short() {
		backends, rounds, few = 1, 10, 1
	}
	if got := len(short.Backends()); got != backends {
		t.Errorf("%d backends, want %d", got, backends)
	}
	if got := short.Of(100); got != rounds {
		t.Errorf("Of(100) is %d, want %d", got, rounds)
	}
	if got := short.Of(5); got != few {
		t.Errorf("Of(5) is %d, want %d", got, few)
	}
}
