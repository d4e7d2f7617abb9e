package sim_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/internal/transporttest"
)

// TestTransportsOnASimulatedKernel runs the conformance suite of package transport.
func TestTransportsOnASimulatedKernel(t *testing.T) {
	transporttest.Run(t, transporttest.Traits{OwnTime: true}, func(testing.TB) *kernel.Kernel { return simkernel.NewKernel() })
}
