package sim_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/transporttest"
	"github.com/spindleloop/spindle/sim"
)

// TestTransportsOnASimulatedKernel holds package transport to its promises here as
// on the real kernels.
func TestTransportsOnASimulatedKernel(t *testing.T) {
	transporttest.Run(t, transporttest.Traits{OwnTime: true}, func(testing.TB) *kernel.Kernel { return sim.NewKernel() })
}
