package sim_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/internal/transporttest"
)

// TestTransportsOnASimulatedKernel runs the conformance suite of package transport.
func TestTransportsOnASimulatedKernel(t *testing.T) {
	traits := transporttest.Traits{OwnTime: true}
	if short.UnderRace || !short.Full() { // package transporttest runs more of it
		traits.Places, traits.Networks = 2, []string{"unix"}
	}
	transporttest.Run(t, traits, func(testing.TB) *kernel.Kernel { return simkernel.NewKernel() })
}
