package spindle

import (
	"context"
	"math/rand/v2"

	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
)

// LoopOf returns the loop that ctx belongs to.
func LoopOf(ctx context.Context) *loop.Loop {
	if sc, ok := ctx.(*Scope); ok {
		return sc.s.l
	}
	return loopOf(ctx)
}

func loopOf(ctx context.Context) *loop.Loop {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask("LoopOf"))
	}
	return scope.s.l
}

// Rand returns the source of random numbers of the loop that ctx belongs to. In a simulated
// run it is seeded from the seed of the run, so that the same seed draws the same numbers.
// Otherwise the operating system seeds it. All tasks of a loop share its source. It is for
// tasks and callbacks of the loop.
//
// It is not for secrets: use crypto/rand for those.
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
