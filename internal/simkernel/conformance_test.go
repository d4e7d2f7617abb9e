package simkernel_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/kernel/kerneltest"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/simkernel"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestConformance runs the conformance suite of real kernels.
func TestConformance(t *testing.T) {
	kerneltest.Run(t, kerneltest.Traits{Edges: true}, func(tb testing.TB) *kernel.Kernel {
		return simkernel.New(1).AddHost("host").NewProcess().Kernel()
	})
}
