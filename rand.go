package spindle

import (
	"context"
	"math/rand/v2"

	"github.com/spindleloop/spindle/internal/loopcore"
)

// Rand is the source of random numbers of the loop that ctx belongs to. It is seeded
// by the kernel: on a real system from its entropy, in a simulated run from the seed
// of the run, so that the same seed draws the same numbers. Each loop has one source,
// which its tasks share. It is for tasks and callbacks of the loop.
//
// It is not for secrets: those come from crypto/rand.
func Rand(ctx context.Context) *rand.Rand {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask("Rand"))
	}
	scope.s.only("Rand")
	c := scope.s.l.Internal()
	return sources.Get(c, func() *rand.Rand {
		k := c.Kernel()
		return rand.New(rand.NewPCG(k.Uint64(), k.Uint64()))
	})
}

var sources loopcore.PerLoop[rand.Rand]
