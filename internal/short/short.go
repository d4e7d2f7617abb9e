// Package short reduces the work of tests that run with -short.
package short

import (
	"flag"
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

// Of returns n, or a tenth of it with -short. It is for rounds, seeds, connections and
// sizes.
func Of(n int) int {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}

// Parallel lets more of the tests that call t.Parallel run at a time with -short. It is for
// packages in which such tests mostly wait. Call it from TestMain.
func Parallel() {
	flag.Parse()
	if testing.Short() {
		_ = flag.Set("test.parallel", "16") // it exists in every test
	}
}
