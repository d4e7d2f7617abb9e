// Package short decides how much work tests do: all of it if SPINDLE_TEST_FULL is set, as CI
// does; enough for the next change without; and little with -short.
package short

import (
	"flag"
	"os"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Backends returns the pollers on which to run a test: all that the system supports,
// or the default one with -short.
func Backends() []string {
	all := kernel.Backends()
	if testing.Short() {
		return all[:1]
	}
	return all
}

// Full reports whether tests do all of their work: every seed, size and fault.
func Full() bool { return os.Getenv("SPINDLE_TEST_FULL") != "" && !testing.Short() }

// Seeds returns n if Full, otherwise a fifth of it, and a twentieth with -short. It is for
// explorations.
func Seeds(n int) int {
	switch {
	case Full():
		return n
	case testing.Short():
		return max(1, n/20)
	}
	return max(1, n/5)
}

// Of returns n, or a tenth of it with -short. It is for rounds, connections and sizes.
func Of(n int) int {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}

// Computes skips a test with -short under the race detector: it computes for long, on one goroutine
// at a time, where no race can be found.
func Computes(t testing.TB) {
	t.Helper()
	if UnderRace && testing.Short() {
		t.Skip("with -short under the race detector: computes on one goroutine")
	}
}

// Parallel lets more of the tests that call t.Parallel run at a time. It is for packages in
// which such tests mostly wait. Call it from TestMain.
func Parallel() {
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // it exists in every test
}
