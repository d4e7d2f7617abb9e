package short_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
)

// TestSeeds: all if tests do all of their work, some without, and few with -short.
func TestSeeds(t *testing.T) {
	for full, want := range map[string]int{"": 20, "1": 100} {
		t.Setenv("SPINDLE_TEST_FULL", full)
		if testing.Short() {
			want = 5
		}
		if got := short.Seeds(100); got != want {
			t.Errorf("with SPINDLE_TEST_FULL=%q: Seeds(100) is %d, want %d", full, got, want)
		}
		if short.Seeds(1) != 1 {
			t.Error("no seed is left of one")
		}
	}
}

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
